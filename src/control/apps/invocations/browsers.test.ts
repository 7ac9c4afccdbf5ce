// Browsers that belong to a run, over real HTTP: made for it, listed, deleted, and ended with it in every way that a run ends. apps.md 7 of the
// contract.
import { adoptAll } from '../../../instances/driver.ts'
import { readdirSync } from 'node:fs'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { conforms } from '../../../../test/support/contract.ts'
import { startFastCloud, type FastCloud, type Session } from '../../../../test/support/fast-cloud.ts'
import { newId } from '../../../base/ids.ts'
import { until } from '../../../base/wait.ts'
import { fakeApps } from '../../../instances/fake/apps.ts'
import { calling, deploy, NOTICE_MS } from './deployed.suite.ts'

let cloud: FastCloud
let callers: ReturnType<typeof calling>
beforeAll(async () => {
  cloud = await startFastCloud({ COB_WARM_BROWSERS: '0' })
  callers = calling(cloud)
  await deploy(cloud)
})
afterAll(() => cloud[Symbol.asyncDispose]())
afterEach(async () => {
  const live = await cloud.query<{ id: string }>('select id from invocations where finished_at is null')
  for (const { id } of live) await callers.patch(id, { status: 'failed' })
})

async function refused(answer: Promise<Response>): Promise<{ status: number; message: string }> {
  const response = await answer
  const body = (await response.json()) as { message: string }
  conforms('ErrorModel', body)
  return { status: response.status, message: body.message }
}
/** Sandboxes of runs, without the warm one. */
const busy = async () => {
  const held = (await cloud.query<{ runner_id: string }>('select runner_id from invocations where runner_id is not null')).map(({ runner_id }) => runner_id)
  return readdirSync(cloud.paths.appSandboxes).filter((id) => held.includes(id))
}

describe('the browsers of a run', () => {
  const listed = async (id: string) => {
    const body = (await (await cloud.fetch(`/invocations/${id}/browsers`)).json()) as { browsers: Session[] }
    conforms('InvocationListBrowsersResponse', body)
    return body.browsers
  }
  const remove = (id: string) => cloud.fetch(`/invocations/${id}/browsers`, { method: 'DELETE' })

  test('are full records of those created with its id, as long as they live', async () => {
    const id = await callers.begin('hang')
    const [one, two] = [await cloud.create({ invocation_id: id, name: 'of-a-run' }), await cloud.create({ invocation_id: id })]
    await cloud.create()
    const found = await listed(id)
    expect(found.map(({ session_id }) => session_id)).toEqual([two.session_id, one.session_id])
    const { usage: _, cdp_ws_url: __, webdriver_ws_url: ___, ...record } = found[1]!
    const { usage: ____, cdp_ws_url: _____, webdriver_ws_url: ______, ...made } = one
    expect(record).toEqual(made)
    await cloud.fetch(`/browsers/${one.session_id}`, { method: 'DELETE' })
    expect((await listed(id)).map(({ session_id }) => session_id)).toEqual([two.session_id])
  })

  test('are deleted with 204, also if there are none; the run continues', async () => {
    const id = await callers.begin('hang')
    await cloud.create({ invocation_id: id })
    expect([(await remove(id)).status, (await remove(id)).status, await listed(id)]).toEqual([204, 204, []])
    expect((await callers.get(id)).finished_at).toBe(null)
    const { id: over } = await callers.run('echo')
    expect((await remove(over)).status).toBe(204)
  })

  test.each([
    ['it is stopped', async (id: string) => void (await callers.patch(id, { status: 'failed' }))],
    ['it is told to have succeeded', async (id: string) => void (await callers.patch(id, { status: 'succeeded' }))],
    [
      'its time is over',
      async (id: string) => {
        await cloud.query(`update invocations set started_at = started_at - interval '901 seconds' where id = $1`, [id])
        expect(await callers.becomes(id, 'failed')).toMatchObject({ status_reason: 'timed out after 900 s', output: '{"error":"timed out after 900 s"}' })
      },
    ],
    [
      'its sandbox ends',
      async (id: string) => {
        const [row] = await cloud.query<{ runner_id: string }>('select runner_id from invocations where id = $1', [id])
        await (await adoptAll(fakeApps(cloud.paths))).find((sandbox) => sandbox.id === row!.runner_id)![Symbol.asyncDispose]()
        expect(await callers.becomes(id, 'failed')).toMatchObject({ status_reason: expect.stringContaining('its sandbox ended') as string })
      },
    ],
  ])('end with it if %s; other browsers stay', async (_, end) => {
    const id = await callers.begin('hang')
    await callers.becomes(id, 'running')
    const [mine, other] = [await cloud.create({ invocation_id: id }), await cloud.create({})]
    await end(id)
    await until('the browser to end', NOTICE_MS, async () => (await cloud.fetch(`/browsers/${mine.session_id}`)).status === 404)
    expect([(await cloud.fetch(`/browsers/${other.session_id}`)).status, await listed(id)]).toEqual([200, []])
  })

  test('that could not be ended with it are ended later', async () => {
    const id = await callers.begin('hang')
    const { session_id } = await cloud.create({ invocation_id: id })
    // As a service leaves it that was killed between the two steps.
    await cloud.query(`update invocations set state = 'failed', finished_at = now() where id = $1`, [id])
    await until('the browser to end', NOTICE_MS, async () => (await cloud.fetch(`/browsers/${session_id}`)).status === 404)
    await until('the sandbox to end', NOTICE_MS, async () => (await busy()).length === 0)
  })

  test('cannot be created for an ended or unknown run: the answer is 400 naming invocation_id, and nothing is left', async () => {
    // Those of earlier tests may still be on their way out, and the warm pool may have got another one.
    const live = () => cloud.query('select id from browsers where created_at is not null and deleted_at is null order by id')
    const before = await live()
    const { id } = await callers.run('echo')
    for (const wrong of [id, newId(), 'nothing'])
      expect(await refused(cloud.send('POST', '/browsers', { invocation_id: wrong }))).toMatchObject({
        status: 400,
        message: expect.stringMatching(/^invocation_id: /) as string,
      })
    expect(await live()).toEqual(before)
  })

  test('that are being created while it ends do not outlive it', async () => {
    for (let round = 0; round < 5; round++) {
      const id = await callers.begin('hang')
      const making = Array.from({ length: 4 }, () => cloud.send('POST', '/browsers', { invocation_id: id }))
      await callers.patch(id, { status: 'failed' })
      const statuses = (await Promise.all(making)).map(({ status }) => status)
      expect(statuses.every((status) => status === 200 || status === 400)).toBe(true)
      const left = await cloud.query(`select id from browsers where invocation_id = $1 and state in ('starting', 'running')`, [id])
      expect(left).toEqual([])
    }
  })
})

test('nothing in these tests caused an internal error of the service', () => expect(cloud.errors).toEqual([]))
