// Health checks: when they run, how many at a time, and their effects. A function of the test acts as the engine.
import { describe, expect, test } from 'vitest'
import { conforms } from '../../../../test/support/contract.ts'
import { newId } from '../../../base/ids.ts'
import { until } from '../../../base/wait.ts'
import { beginChecks } from './checks.ts'
import type { TimelineItem } from './contract.ts'
import type { FlowEnd } from './flow-ends.ts'
import { oldFlows } from './purge.ts'
import { json, serviceWithWorker } from './worker.suite.ts'

const WAIT_MS = 20_000

const { cloud, worker, create, read, login, begin, succeed } = await serviceWithWorker({ COB_MAX_HEALTH_CHECKS: '1' })

describe('health checks', () => {
  const due = (id: string) => cloud.query(`update auth_connections set next_check_at = now() - interval '1 second' where id = $1`, [id])
  /** A connection that was logged in. */
  async function loggedIn(more: object = {}) {
    const { id } = await create(more)
    await succeed((await begin(id)).id)
    return id
  }
  const scheduled = async (id: string) =>
    (await cloud.query<{ at: Date | null }>('select next_check_at as at from auth_connections where id = $1', [id]))[0]!.at

  test('are scheduled by a login, and moved or stopped by a change at once', async () => {
    const { id } = await create()
    expect(await scheduled(id)).toBeNull()
    await succeed((await begin(id)).id)
    expect((await scheduled(id))!.getTime()).toBeGreaterThan(Date.now() + 3000_000)
    await cloud.send('PATCH', `/auth/connections/${id}`, { health_check_interval: 300 })
    expect((await scheduled(id))!.getTime()).toBeLessThan(Date.now() + 400_000)
    await cloud.send('PATCH', `/auth/connections/${id}`, { health_checks: false })
    expect(await scheduled(id)).toBeNull()
  })

  test('run when due, do not show as a login, and tell what was before', async () => {
    const id = await loggedIn()
    await due(id)
    const check = await worker.claim(id)
    expect(check).toMatchObject({ type: 'health_check', code_hash: null })
    expect(await read(id)).toMatchObject({ flow_status: 'SUCCESS', status: 'AUTHENTICATED' })
    await worker.flows.finish(check.id, { state: 'AUTHENTICATED' })
    const items = await json<TimelineItem[]>(await cloud.fetch(`/auth/connections/${id}/timeline?type=health_check`))
    conforms('ManagedAuthTimelineEvent', items, true)
    expect(items).toMatchObject([{ type: 'health_check', status: 'AUTHENTICATED', previous_status: 'AUTHENTICATED' }])
    expect((await scheduled(id))!.getTime()).toBeGreaterThan(Date.now())
  })

  test('that find the user logged out begin a re-login by itself, whose failure leaves NEEDS_AUTH', async () => {
    const id = await loggedIn()
    await due(id)
    await worker.flows.finish((await worker.claim(id)).id, { state: 'NEEDS_AUTH' })
    const again = await worker.claim(id)
    expect(again).toMatchObject({ type: 'reauth', state: 'IN_PROGRESS' })
    expect(await read(id)).toMatchObject({ status: 'NEEDS_AUTH', flow_type: 'REAUTH', hosted_url: null })
    await worker.flows.finish(again.id, { state: 'FAILED', errorCode: 'credentials_invalid', errorMessage: 'wrong' })
    const [row] = await cloud.query<{ checks: object; status: string }>('select checks, status from auth_connections where id = $1', [id])
    expect(row).toEqual({ checks: { failures: 1 }, status: 'NEEDS_AUTH' })
    await succeed((await begin(id)).id)
    expect(await read(id)).toMatchObject({ status: 'AUTHENTICATED' })
  })

  test('have a stored password that the site has refused sent once, until the credential has others or is named again', async () => {
    // With the service's own view of the connection.
    const flows = worker.as('worker', { canReauth: async ({ id }) => (await read(id)).can_reauth })
    const name = `refused-${newId()}`
    const values = { username: 'kim', password: 'old' }
    const { id: credential } = await json<{ id: string }>(await cloud.send('POST', '/credentials', { name, domain: 'site.test', values }))
    const id = await loggedIn({ credential: { name } })
    const versionNow = async () => {
      const [row] = await cloud.query<{ version: string }>(`select id || ' ' || secrets_version as version from credentials where id = $1`, [credential])
      return row!.version
    }
    /** A due check, started at once. */
    async function check(): Promise<string> {
      await due(id)
      await beginChecks({ db: worker.db, scope: worker.scope, flows, atOnce: 1 })
      return (await worker.claim(id)).id
    }
    /** One check finds the user logged out. Returns whether a login follows, which sends the password; the site refuses it. */
    async function sends(): Promise<boolean> {
      await flows.finish(await check(), { state: 'NEEDS_AUTH' })
      const again = await flows.claimNext()
      if (again) await flows.finish(again.id, { state: 'FAILED', errorCode: 'credentials_invalid', errorMessage: 'wrong', refused: await versionNow() })
      return again !== undefined
    }
    const change = (more: object) => cloud.send('PATCH', `/credentials/${name}`, more)

    expect([await sends(), await sends(), await sends()]).toEqual([true, false, false])
    expect(await read(id)).toMatchObject({ status: 'NEEDS_AUTH', can_reauth: false, can_reauth_reason: 'no_viable_plans' })
    // A check may find the user logged in because a person did it. That does not make the password valid.
    await flows.finish(await check(), { state: 'AUTHENTICATED' })
    await change({ values: { password: 'old' }, sso_provider: 'google' })
    expect(await sends()).toBe(false)
    await change({ values: { password: 'new' } })
    expect(await read(id)).toMatchObject({ can_reauth: true, can_reauth_reason: 'has_credential' })
    expect([await sends(), await sends()]).toEqual([true, false])
    await change({ totp_secret: 'JBSWY3DPEHPK3PXP' })
    expect([await sends(), await sends()]).toEqual([true, false])
    await cloud.send('PATCH', `/auth/connections/${id}`, { credential: { name } })
    expect([await sends(), await sends()]).toEqual([true, false])
    await succeed((await begin(id)).id)
    expect([await sends(), await sends()]).toEqual([true, false])
  })

  test('do not send a stored password that the site has refused in a login that a caller began', async () => {
    const name = `refused-${newId()}`
    await cloud.send('POST', '/credentials', { name, domain: 'site.test', values: { username: 'kim', password: 'old' } })
    const id = await loggedIn({ credential: { name } })
    await login(id)
    const [row] = await cloud.query<{ version: string }>(`select id || ' ' || secrets_version as version from credentials where name = $1`, [name])
    const failed = { state: 'FAILED', errorCode: 'credentials_invalid', errorMessage: 'wrong', refused: row!.version } as const
    await worker.flows.finish((await worker.claim(id)).id, failed)
    expect(await read(id)).toMatchObject({ can_reauth: false, can_reauth_reason: 'no_viable_plans' })
  })

  test('leave a connection as it is when there is no room, no time or a mistake of ours, and need somebody when the site fails again and again', async () => {
    const id = await loggedIn()
    const end = async (how: FlowEnd) => {
      await due(id)
      await beginChecks({ db: worker.db, scope: worker.scope, flows: worker.flows, atOnce: 1 })
      await worker.flows.finish((await worker.claim(id)).id, how)
      return (await read(id)).status
    }
    for (let round = 0; round < 2; round++)
      for (const how of [
        { state: 'FAILED', errorCode: 'browser_error', errorMessage: 'too many sessions' },
        { state: 'FAILED', errorCode: 'internal', errorMessage: 'a mistake' },
        { state: 'EXPIRED', errorMessage: 'the time for this login is over' },
      ] as const)
        expect(await end(how)).toBe('AUTHENTICATED')
    const failing = { state: 'FAILED', errorCode: 'website_error', errorMessage: 'the site answered 502' } as const
    expect([await end(failing), await end(failing), await end(failing)]).toEqual(['AUTHENTICATED', 'AUTHENTICATED', 'NEEDS_AUTH'])
  })

  test('give way to a login, and are so many at a time as the setting says', async () => {
    const ids = [await loggedIn(), await loggedIn()]
    for (const id of ids) await due(id)
    const running = () => cloud.query<{ connection_id: string }>(`select connection_id from auth_flows where type = 'health_check' and state = 'IN_PROGRESS'`)
    const [first] = await until('a check has begun', WAIT_MS, async () => ((await running()).length > 0 ? running() : undefined))
    const id = first!.connection_id
    expect((await running()).length).toBe(1)
    expect((await login(id)).status).toBe(200)
    expect(await read(id)).toMatchObject({ flow_status: 'IN_PROGRESS' })
    const other = ids.find((one) => one !== id)!
    await until('the next check has begun', WAIT_MS, async () => (await running()).some(({ connection_id }) => connection_id === other))
    for (const one of ids) await cloud.fetch(`/auth/connections/${one}`, { method: 'DELETE' })
  })
})

test('what an organization has counts its connections', async () => {
  const { auth_connections_used: used } = await json<{ auth_connections_used: number }>(await cloud.fetch('/org/limits'))
  const [row] = await cloud.query<{ count: number }>('select count(*)::int as count from auth_connections')
  expect([used, used > 0]).toEqual([row!.count, true])
})

test('logins and checks that ended long ago are removed, but not the last login of a connection, nor what is in progress', async () => {
  const { id } = await create({ health_checks: false })
  const flows: string[] = []
  for (let count = 0; count < 2; count++) {
    const flow = await begin(id)
    flows.push(flow.id)
    await succeed(flow.id)
  }
  await cloud.query(`update auth_flows set finished_at = now() - interval '40 days' where connection_id = $1`, [id])
  expect(await oldFlows(worker.db, worker.scope, 30).run(AbortSignal.timeout(WAIT_MS))).toBe(1)
  const left = await cloud.query<{ id: string }>('select id from auth_flows where connection_id = $1', [id])
  expect(left).toEqual([{ id: flows[1] }])
  expect(await read(id)).toMatchObject({ flow_status: 'SUCCESS' })
})
