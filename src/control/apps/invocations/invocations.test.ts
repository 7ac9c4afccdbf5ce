// The rules of runs over real HTTP: start, wait, retry, find, end, refused values, and the browsers of a run.
import { DEFAULT_PROJECT } from '../../access/projects/resolve.ts'
import { readdirSync } from 'node:fs'
import { afterEach, beforeAll, describe, expect, test } from 'vitest'
import { conforms } from '../../../../test/support/contract.ts'
import { fastCloud, type Session } from '../../../../test/support/fast-cloud.ts'
import { newId } from '../../../base/ids.ts'
import { until } from '../../../base/wait.ts'
import { adoptAll } from '../../../instances/driver.ts'
import { fakeApps } from '../../../instances/fake/apps.ts'
import { calling, deploy, NOTICE_MS, type RunRecord } from './deployed.suite.ts'

const MAX_RUNS = 6
const RETRY = { 'x-stainless-retry-count': '1' }

let deployment: string
let callers: ReturnType<typeof calling>
const cloud = fastCloud({ COB_MAX_INVOCATIONS: String(MAX_RUNS), COB_WARM_BROWSERS: '0' })
beforeAll(async () => {
  callers = calling(cloud)
  deployment = await deploy(cloud)
})
afterEach(async () => {
  const live = await cloud.query<{ id: string }>('select id from invocations where finished_at is null')
  for (const { id } of live) await callers.patch(id, { status: 'failed' })
})

async function refused(answer: Promise<Response>): Promise<{ status: number; message: string; headers: Headers }> {
  const response = await answer
  const body = (await response.json()) as { message: string }
  conforms('ErrorModel', body)
  return { status: response.status, message: body.message, headers: response.headers }
}
/** Sandboxes of runs, without the warm one. */
const busy = async () => {
  const held = (await cloud.query<{ runner_id: string }>('select runner_id from invocations where runner_id is not null')).map(({ runner_id }) => runner_id)
  return readdirSync(cloud.paths.appSandboxes).filter((id) => held.includes(id))
}
const count = async () => Number((await cloud.query<{ count: string }>('select count(*) from invocations'))[0]!.count)

describe('a synchronous run', () => {
  test('answers 200 with the result of the action as JSON text', async () => {
    const response = await callers.post('echo', { payload: '{"a":[1,"ä"]}' })
    const body = (await response.json()) as RunRecord
    conforms('InvocationCreateResponse', body)
    expect([response.status, response.headers.get('content-type'), body]).toEqual([
      200,
      'application/json; charset=utf-8',
      { id: expect.stringMatching(/^[a-z][a-z0-9]{23}$/) as string, action_name: 'echo', status: 'succeeded', output: '{"a":[1,"ä"]}' },
    ])
  })

  test('has no output if the action returned none, and no payload if none was given', async () => {
    for (const payload of [{}, { payload: '' }]) {
      const { id, ...answer } = await callers.run('echo', payload)
      expect(answer).toEqual({ action_name: 'echo', status: 'succeeded' })
      const record = await callers.get(id)
      expect(['payload' in record, 'output' in record]).toEqual([false, false])
    }
  })

  test('that fails answers 200 with status failed, the reason, and the error as output', async () => {
    const answer = await callers.run('fail', { payload: '"no luck"' })
    expect(answer).toMatchObject({ status: 'failed', status_reason: 'no luck', output: '{"error":"no luck"}' })
  })

  test('is found with its times, names and payload', async () => {
    const { id } = await callers.run('echo', { payload: '1' })
    const record = await callers.get(id)
    expect(record).toEqual({
      id,
      app_name: 'app',
      action_name: 'echo',
      version: 'latest',
      status: 'succeeded',
      started_at: expect.stringMatching(/\.\d{3}Z$/) as string,
      finished_at: expect.stringMatching(/\.\d{3}Z$/) as string,
      payload: '1',
      output: '1',
    })
    expect(await callers.received(id)).toEqual(['running', 'succeeded'])
  })

  test('continues when its caller leaves, and its result can be read', async () => {
    const left = new AbortController()
    const call = cloud.fetch('/invocations', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ app_name: 'app', version: 'latest', action_name: 'slow', payload: '3000' }),
      signal: left.signal,
    })
    call.catch(() => {})
    const [row] = await until('the run', NOTICE_MS, async () => {
      const rows = await cloud.query<{ id: string }>(`select id from invocations where action_name = 'slow' and state = 'running'`)
      return rows.length === 1 && rows
    })
    left.abort()
    expect(await callers.becomes(row!.id, 'succeeded', 'failed')).toMatchObject({ status: 'succeeded', output: '"done"' })
  })
})

describe('an async run', () => {
  test('answers 202 immediately, is queued, and ends by itself', async () => {
    const response = await callers.post('slow', { async: true, payload: '200' })
    const body = (await response.json()) as RunRecord
    conforms('InvocationCreateResponse', body)
    expect([response.status, body]).toEqual([202, { id: body.id, action_name: 'slow', status: 'queued' }])
    expect(await callers.becomes(body.id, 'succeeded')).toMatchObject({ output: '"done"' })
  })

  test('has its own timeout; the default is 900 s, and 100 s for synchronous runs', async () => {
    const limit = async (id: string) =>
      (await cloud.query<{ timeout_seconds: number }>('select timeout_seconds from invocations where id = $1', [id]))[0]!.timeout_seconds
    expect(await limit(await callers.begin('echo', { async_timeout_seconds: 10 }))).toBe(10)
    expect(await limit(await callers.begin('echo', { async_timeout_seconds: 3600 }))).toBe(3600)
    expect(await limit(await callers.begin('echo'))).toBe(900)
    expect(await limit((await callers.run('echo')).id)).toBe(100)
  })
})

test('an invocation may contain null for fields that are not set', async () => {
  const nothing = { payload: null, async: null, async_timeout_seconds: null }
  expect(await callers.run('echo', nothing)).toMatchObject({ status: 'succeeded' })
})

describe('an invocation is refused', () => {
  test.each([
    ['payload', { payload: '{"a":' }],
    ['payload', { payload: 'hello' }],
    ['payload', { payload: 7 }],
    ['app_name', { app_name: '' }],
    ['action_name', { action_name: 3 }],
    ['version', { version: undefined }],
    ['async', { async: 'yes' }],
    ['async_timeout_seconds', { async: true, async_timeout_seconds: 9 }],
    ['async_timeout_seconds', { async: true, async_timeout_seconds: 3601 }],
    ['async_timeout_seconds', { async: true, async_timeout_seconds: 10.5 }],
    ['async_timeout_seconds', { async_timeout_seconds: 30 }],
    ['nonsense', { nonsense: 1 }],
  ])('with an error that names %s: %j', async (field, body) => {
    const { status, message } = await refused(callers.post('echo', body))
    expect([status, message]).toEqual([400, expect.stringMatching(new RegExp(`^${field}\\b`)) as string])
  })

  test('with 413 if the payload is over 4.5 MB; exactly 4.5 MB are accepted', async () => {
    const text = (bytes: number) => JSON.stringify('"'.repeat((bytes - 2) / 2))
    expect(await refused(callers.post('echo', { payload: text(4_718_594) }))).toMatchObject({
      status: 413,
      message: expect.stringContaining('payload') as string,
    })
    expect((await callers.run('echo', { payload: text(4_718_592) })).status).toBe('succeeded')
  })

  test.each([
    ['there is no app "nobody"', { app_name: 'nobody' }],
    ['there is no version of the app "app" named "1.0"', { version: '1.0' }],
    ['there is no action of the app "app" (version "latest") named "nothing"', { action_name: 'nothing' }],
  ])('with 404 that names what is missing: %s', async (message, body) => {
    const before = await count()
    expect(await refused(callers.post('echo', body))).toMatchObject({ status: 404, message })
    expect(await count()).toBe(before)
  })

  test('with 429 and Retry-After at the limit of concurrent runs; when a run ends the next is accepted', async () => {
    const held = await Promise.all(Array.from({ length: MAX_RUNS }, () => callers.begin('hang')))
    for (const body of [{}, { async: true }]) {
      const { status, headers, message } = await refused(callers.post('echo', body))
      expect([status, headers.get('retry-after'), message]).toEqual([429, '1', expect.stringContaining('COB_MAX_INVOCATIONS') as string])
    }
    await callers.patch(held[0]!, { status: 'failed' })
    expect((await callers.run('echo')).status).toBe('succeeded')
  })

  test('at the limit, and the limit is never exceeded by concurrent requests', async () => {
    const answers = await Promise.all(Array.from({ length: 3 * MAX_RUNS }, () => callers.post('hang', { async: true })))
    expect(answers.filter(({ status }) => status === 202)).toHaveLength(MAX_RUNS)
    expect(answers.filter(({ status }) => status === 429)).toHaveLength(2 * MAX_RUNS)
  })
})

describe('a request that its client retries', () => {
  test('waits for the run that it started, and for no other', async () => {
    const first = callers.run('slow', { payload: '600' })
    await until('the run', NOTICE_MS, async () => (await cloud.query(`select id from invocations where state = 'running' and payload = '600'`)).length === 1)
    const [one, again, other] = await Promise.all([
      first,
      callers.run('slow', { payload: '600' }, RETRY),
      callers.run('slow', { payload: '601' }, { 'x-stainless-retry-count': '2' }),
    ])
    expect([again.id, again.output, other.id === one.id]).toEqual([one.id, '"done"', false])
  })

  test('gets the result of a run that ended less than 60 s ago, and starts a new run later', async () => {
    const one = await callers.run('echo', { payload: '"once"' })
    expect((await callers.run('echo', { payload: '"once"' }, RETRY)).id).toBe(one.id)
    await cloud.query(`update invocations set finished_at = finished_at - interval '61 seconds' where id = $1`, [one.id])
    expect((await callers.run('echo', { payload: '"once"' }, RETRY)).id).not.toBe(one.id)
  })

  test('starts a run if none was started for it, as after a 429', async () => {
    const before = await callers.run('echo', { payload: '"twice"' })
    const held = await Promise.all(Array.from({ length: MAX_RUNS }, () => callers.begin('hang')))
    expect((await callers.post('echo', { payload: '"twice"' })).status).toBe(429)
    await callers.patch(held[0]!, { status: 'failed' })
    expect((await callers.run('echo', { payload: '"twice"' }, RETRY)).id).not.toBe(before.id)
  })

  test('waits for the run that it started, although equal requests of others still run or were refused', async () => {
    const body = { payload: '5000' }
    const ask = (signal: AbortSignal) =>
      cloud.fetch('/invocations', {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ app_name: 'app', version: 'latest', action_name: 'slow', ...body }),
        signal,
      })
    const running = () => cloud.query<{ id: string }>(`select id from invocations where state = 'running' and payload = '5000' order by started_at`)
    const left = new AbortController()
    const first = ask(left.signal)
    first.catch(() => {})
    await until('the run', NOTICE_MS, async () => (await running()).length === 1)
    const second = ask(AbortSignal.timeout(NOTICE_MS))
    await until('another run', NOTICE_MS, async () => (await running()).length === 2)
    const [{ id } = { id: '' }] = await running()
    for (let more = 2; more < MAX_RUNS; more++) await callers.begin('hang')
    expect((await callers.post('slow', body)).status).toBe(429)
    left.abort()
    await expect(first).rejects.toThrow()
    // The service notices a moment later that the caller has disconnected. Until then the retry is taken for one of the refused request.
    const retried = await until('the answer to the retry', NOTICE_MS, async () => {
      const answer = await callers.post('slow', body, RETRY)
      return answer.status !== 429 && answer
    })
    expect(((await retried.json()) as { id: string }).id).toBe(id)
    expect((await second).status).toBe(200)
  })

  test('is a new request if its idempotency key differs, or if it is async', async () => {
    const one = await callers.run('echo', { payload: '"mine"' })
    await cloud.query(`update invocations set caller = 'somebody' where id = $1`, [one.id])
    expect((await callers.run('echo', { payload: '"mine"' }, RETRY)).id).not.toBe(one.id)
    const [two, three] = [await callers.run('echo', { async: true }, RETRY), await callers.run('echo', { async: true }, RETRY)]
    expect(two.id).not.toBe(three.id)
  })

  test('differs from two first requests of two callers, which start two runs', async () => {
    const [one, two] = await Promise.all([callers.run('slow', { payload: '100' }), callers.run('slow', { payload: '100' })])
    expect(one.id).not.toBe(two.id)
  })
})

describe('a run can be read', () => {
  test('by a unique prefix of its id', async () => {
    const { id } = await callers.run('echo')
    for (const length of [8, 16, 23, 24]) expect((await callers.get(id.slice(0, length))).id).toBe(id)
  })

  test('but not by less than four characters, an invalid id, or a prefix of several runs', async () => {
    const { id } = await callers.run('echo')
    for (const wrong of [id.slice(0, 3), newId(), 'nothing', ' ', '%', `${id}x`, 'ABCD'])
      expect([wrong, (await refused(cloud.fetch(`/invocations/${encodeURIComponent(wrong)}`))).status]).toEqual([wrong, 404])
    const twins = [`twin${'0'.repeat(20)}`, `twin${'1'.repeat(20)}`]
    for (const twin of twins)
      await cloud.query(
        `insert into invocations (id, project_id, state, deployment_id, app_name, version, action_name, is_async, timeout_seconds, caller, request_hash, finished_at)
         values ($1, '${DEFAULT_PROJECT}', 'failed', $2, 'app', 'latest', 'echo', true, 900, '', '', now())`,
        [twin, deployment],
      )
    expect(await refused(cloud.fetch('/invocations/twin'))).toMatchObject({ status: 400, message: expect.stringContaining('id: more than one') as string })
    expect((await callers.get('twin1')).id).toBe(twins[1])
  })
})

describe('a run that a caller ends', () => {
  test('has failed with the given output, its sandbox is gone when the answer comes, and waiting callers get the end', async () => {
    const waiting = callers.run('hang')
    const [row] = await until('the run', NOTICE_MS, async () => {
      const rows = await cloud.query<{ id: string }>(`select id from invocations where state = 'running'`)
      return rows.length === 1 && rows
    })
    const ended = await callers.patch(row!.id, { status: 'failed', output: '{"why":"enough"}' })
    expect(ended).toMatchObject({
      status: 'failed',
      output: '{"why":"enough"}',
      status_reason: 'it was stopped by a caller',
      finished_at: expect.any(String) as string,
    })
    expect(await busy()).toEqual([])
    expect(await waiting).toMatchObject({ id: row!.id, status: 'failed', output: '{"why":"enough"}' })
    expect(await callers.received(row!.id)).toEqual(['running', 'failed'])
  })

  test('may also succeed, and then has no reason', async () => {
    const id = await callers.begin('hang')
    await callers.becomes(id, 'running')
    const ended = await callers.patch(id, { status: 'succeeded', output: 'not JSON' })
    expect([ended.status, ended.output, 'status_reason' in ended]).toEqual(['succeeded', 'not JSON', false])
  })

  test('keeps its first end, however many callers end it', async () => {
    const id = await callers.begin('hang')
    const answers = await Promise.all(['failed', 'succeeded', 'failed', 'succeeded'].map((status) => callers.patch(id, { status, output: `"${status}"` })))
    expect(new Set(answers.map((answer) => JSON.stringify(answer))).size).toBe(1)
    expect((await callers.received(id)).filter((state) => state !== 'running')).toHaveLength(1)
    const { id: done } = await callers.run('echo', { payload: '1' })
    const before = await callers.get(done)
    expect(await callers.patch(done, { status: 'failed', output: '"late"' })).toEqual(before)
  })

  test('is refused for an invalid status, naming the field, and answers 404 if it is unknown', async () => {
    const id = await callers.begin('hang')
    for (const [field, body] of [
      ['status', {}],
      ['status', { status: 'running' }],
      ['output', { status: 'failed', output: 1 }],
    ] as const)
      expect(await refused(cloud.send('PATCH', `/invocations/${id}`, body))).toMatchObject({
        status: 400,
        message: expect.stringMatching(`^${field}`) as string,
      })
    expect((await refused(cloud.send('PATCH', `/invocations/${id}`, { status: 'failed', output: 'x'.repeat(4_718_593) }))).status).toBe(413)
    expect((await refused(cloud.send('PATCH', `/invocations/${newId()}`, { status: 'failed' }))).status).toBe(404)
    expect((await callers.get(id)).finished_at).toBe(null)
  })

  test('by deleting its deployment has failed with that reason', async () => {
    const mine = await deploy(cloud, { app: 'short-lived' })
    const id = await callers.begin('hang', { app_name: 'short-lived' })
    await callers.becomes(id, 'running')
    expect((await cloud.fetch(`/deployments/${mine}`, { method: 'DELETE' })).status).toBe(204)
    expect(await callers.get(id)).toMatchObject({ status: 'failed', status_reason: 'its deployment was deleted' })
    expect(await busy()).toEqual([])
    expect((await refused(callers.post('echo', { app_name: 'short-lived' }))).status).toBe(404)
  })
})

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
    // The state that a service leaves when it is killed between the two steps.
    await cloud.query(`update invocations set state = 'failed', finished_at = now() where id = $1`, [id])
    await until('the browser to end', NOTICE_MS, async () => (await cloud.fetch(`/browsers/${session_id}`)).status === 404)
    await until('the sandbox to end', NOTICE_MS, async () => (await busy()).length === 0)
  })

  test('cannot be created for an ended or unknown run: the answer is 400 naming invocation_id, and nothing is left', async () => {
    // Ignore browsers of earlier tests, which may still be ending, and new warm ones.
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
