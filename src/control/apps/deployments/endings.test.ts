// The ends of deployments: superseded while something runs, deleted, lost, and left unfinished by a crash.
import { DEFAULT_PROJECT } from '../../access/projects/resolve.ts'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { sql } from 'kysely'
import { describe, expect, test } from 'vitest'
import { deployParts, fakeApps, hasCode as codeIsThere, inShort, type Deploy } from '../../../../test/support/apps.ts'
import { newId } from '../../../base/ids.ts'
import { silentLog } from '../../../base/log.ts'
import { Unavailable } from '../../../base/unavailable.ts'
import { sleep, until } from '../../../base/wait.ts'
import { EVENT_ID } from '../../../http/sse.ts'
import type { Db } from '../../../store/db.ts'
import { appendEvents } from '../apps/app-events.ts'
import type { Objects } from '../../../store/objects.ts'
import type { DeploymentEvent } from './contract.ts'
import { sweepObjects } from '../../service/system/objects.ts'
import type { Deployments } from './deployments.ts'
import { cleaned, host, NOTICE_MS, reaches, restarted, row } from './lab.suite.ts'
import { moveDeployment } from './lifecycle.ts'
import { archiveObjects } from './rows.ts'

const signal = new AbortController().signal
const env = fakeApps({ app: ['go'] })

const hasCode = (id: string) => codeIsThere(host.paths, id)
const hasKey = async (id: string) =>
  (await host.db.selectFrom('api_keys').select('id').where('deployment_id', '=', id).where('deleted_at', 'is', null).execute()).length > 0
async function deployed(deployments: Deployments, what: Deploy = { env }): Promise<string> {
  const { id } = await deployments.create(DEFAULT_PROJECT, deployParts(what), signal)
  await reaches(id, 'running')
  return id
}
async function startRun(deployment: string, db: Db = host.db): Promise<string> {
  const id = newId()
  const names = { app_name: 'app', version: 'latest', action_name: 'go' }
  const rest = { state: 'running', is_async: true, timeout_seconds: 900, caller: 'x', request_hash: Buffer.alloc(1) }
  await db
    .insertInto('invocations')
    .values({ id, deployment_id: deployment, ...names, ...rest } as never)
    .execute()
  return id
}
const endRun = (id: string) => host.db.updateTable('invocations').set({ state: 'succeeded', finished_at: new Date() }).where('id', '=', id).execute()
const pointsAt = async () =>
  (await host.db.selectFrom('app_versions').select('deployment_id').where('app_name', '=', 'app').execute()).map((found) => found.deployment_id)

describe('a replaced deployment', () => {
  test('with a run continues, with its code and key, and is stopped when the run ends', async () => {
    const deployments = restarted()
    const old = await deployed(deployments)
    const run = await startRun(old)
    const fresh = await deployed(deployments)
    expect(await pointsAt()).toEqual([fresh])
    await deployments.retire(old)
    expect([(await row(old)).state, hasCode(old), await hasKey(old)]).toEqual(['running', true, true])
    expect(await deployments.environment(old)).toHaveProperty('KERNEL_API_KEY')
    await endRun(run)
    await Promise.all([deployments.retire(old), deployments.retire(old)])
    await deployments.retire(old)
    expect([(await row(old)).state, hasCode(old), await hasKey(old), (await row(old)).secrets]).toEqual(['stopped', false, false, null])
    expect((await row(fresh)).state).toBe('running')
  })

  test('waits for a run that is just being created', async () => {
    const deployments = restarted()
    const old = await deployed(deployments)
    const made = Promise.withResolvers<void>()
    const running = host.db.transaction().execute(async (tx) => {
      const { deployment_id } = await tx.selectFrom('app_versions').select('deployment_id').where('app_name', '=', 'app').forShare().executeTakeFirstOrThrow()
      await made.promise
      return startRun(deployment_id, tx)
    })
    const { id: fresh } = await deployments.create(DEFAULT_PROJECT, deployParts({ env }), signal)
    await reaches(fresh, 'in_progress')
    await sleep(200)
    expect([(await row(fresh)).state, await pointsAt()]).toEqual(['in_progress', [old]])
    made.resolve()
    const run = await running
    await reaches(fresh, 'running')
    expect((await row(old)).state).toBe('running')
    await endRun(run)
    await deployments.retire(old)
    expect((await row(old)).state).toBe('stopped')
  })

  test('is not stopped while a version refers to it', async () => {
    const deployments = restarted()
    const id = await deployed(deployments)
    await deployments.retire(id)
    expect((await row(id)).state).toBe('running')
  })

  test('that a crash left behind is stopped by the next start', async () => {
    const before = restarted()
    const id = await deployed(before)
    await before[Symbol.asyncDispose]()
    await host.db.deleteFrom('app_versions').execute()
    restarted()
    await reaches(id, 'stopped')
    await cleaned(id)
  })
})

describe('deleting a deployment', () => {
  test('ends its runs before the deployment itself', async () => {
    const received: string[] = []
    const endRuns = async (id: string, reason: string) => {
      received.push(`${reason}: ${(await row(id)).state}`)
      await host.db.updateTable('invocations').set({ state: 'failed', finished_at: new Date() }).where('deployment_id', '=', id).execute()
    }
    const deployments = restarted({ endRuns })
    const id = await deployed(deployments)
    await startRun(id)
    await deployments.delete(DEFAULT_PROJECT, id)
    expect(received[0]).toBe('its deployment was deleted: running')
    expect(await row(id)).toMatchObject({ state: 'stopped', status_reason: 'it was deleted', secrets: null, archive: null })
    await expect(deployments.get(DEFAULT_PROJECT, id)).rejects.toMatchObject({ status: 404 })
  })

  test('twice at the same time happens once', async () => {
    const deployments = restarted()
    const id = await deployed(deployments)
    const results = await Promise.allSettled([deployments.delete(DEFAULT_PROJECT, id), deployments.delete(DEFAULT_PROJECT, id)])
    expect(results.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected'])
  })

  test('that failed halfway is finished by the next start', async () => {
    const deployments = restarted({ endRuns: () => Promise.reject(new Error('cut short')) })
    const id = await deployed(deployments)
    await deployments.delete(DEFAULT_PROJECT, id)
    expect((await row(id)).deletion).toBe('deleting')
    await expect(deployments.get(DEFAULT_PROJECT, id)).rejects.toMatchObject({ status: 404 })
    restarted()
    await reaches(id, 'stopped')
    await cleaned(id)
    expect([hasCode(id), await hasKey(id), await pointsAt()]).toEqual([false, false, []])
  })

  test('while it is being released leaves nothing running', async () => {
    const deployments = restarted()
    for (let round = 0; round < 10; round++) {
      const { id } = await deployments.create(DEFAULT_PROJECT, deployParts({ env }), signal)
      await until('its turn', NOTICE_MS, async () => (await row(id)).state !== 'queued')
      await sleep(round)
      await deployments.delete(DEFAULT_PROJECT, id)
      expect(['failed', 'stopped']).toContain((await row(id)).state)
      expect([await pointsAt(), hasCode(id), await hasKey(id)]).toEqual([[], false, false])
    }
  })
})

test('a failed deployment that was not cleaned up before a crash is cleaned up by the next start', async () => {
  const before = host.service()
  const { id } = await before.create(DEFAULT_PROJECT, deployParts(), signal)
  await moveDeployment(host.db, id, 'failed', 'x')
  restarted()
  await cleaned(id)
  expect([await hasKey(id), existsSync(join(host.paths.objects, 'archives', id))]).toEqual([false, false])
})

test('a deletion that is recorded is answered as done while the bucket is away, and finished later', async () => {
  let isAway = true
  const remove: Objects['delete'] = (key) => (isAway ? Promise.reject(new Unavailable('the object store does not answer', 5)) : host.objects.delete(key))
  const deployments = restarted({ objects: { ...host.objects, delete: remove } })
  const id = await deployed(deployments)
  await deployments.delete(DEFAULT_PROJECT, id)
  await expect(deployments.get(DEFAULT_PROJECT, id)).rejects.toMatchObject({ status: 404 })
  expect((await row(id)).secrets).not.toBe(null)
  isAway = false
  restarted()
  await cleaned(id)
  expect(hasCode(id)).toBe(false)
})

describe('a quiet event stream', () => {
  test('sends heartbeats, and the output of runs, but not the states of runs', async () => {
    const deployments = restarted({ heartbeatMs: 100 })
    const id = await deployed(deployments)
    const leave = new AbortController()
    const read: (DeploymentEvent & { [EVENT_ID]?: number })[] = []
    const reading = (async () => {
      for await (const event of await deployments.follow(DEFAULT_PROJECT, id, undefined, undefined, leave.signal)) read.push(event)
    })().catch(() => {})
    await until('signs of life', NOTICE_MS, () => read.filter(({ event }) => event === 'sse_heartbeat').length >= 2)
    const run = await startRun(id)
    await sql`insert into app_events (deployment_id, invocation_id, kind, state) values (${id}, ${run}, 'state', 'failed')`.execute(host.db)
    await appendEvents(host.db, id, run, [{ kind: 'log', line: 'from a run' }])
    await until('the line', NOTICE_MS, () => read.some((event) => event.event === 'log' && event.message === 'from a run'))
    leave.abort(new Error('enough'))
    await reading
    expect(read.filter(({ event }) => event !== 'sse_heartbeat').map((data) => inShort({ data }))).toEqual([
      'app: app',
      'state: running',
      'log: installing',
      'log: from a run',
    ])
    expect(read.find(({ event }) => event === 'sse_heartbeat')).toEqual({ event: 'sse_heartbeat', timestamp: expect.any(String) as string })
  })
})

test('archives that no deployment names are removed when they are old enough, those of another service too, and no other', async () => {
  const deployments = restarted()
  const { id } = await deployments.create(DEFAULT_PROJECT, deployParts({ env }), signal)
  await reaches(id, 'running')
  const archive = (name: string) => join(host.paths.objects, 'archives', name)
  for (const name of ['left', 'half.new']) writeFileSync(archive(name), 'zip')
  const sweep = (graceMs: number) => sweepObjects({ ...host, log: silentLog, owners: [archiveObjects(host.db, 'elsewhere')] }, signal, graceMs)
  const there = () => [existsSync(archive('left')), existsSync(archive('half.new')), existsSync(archive(id))]
  await sweep(60_000)
  expect(there()).toEqual([true, true, true])
  await sweep(-60_000)
  expect(there()).toEqual([false, false, true])
})
