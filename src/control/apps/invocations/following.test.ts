// Following and listing runs over real HTTP, also many at once.
import { readdirSync } from 'node:fs'
import { beforeAll, describe, expect, test } from 'vitest'
import { conforms } from '../../../../test/support/contract.ts'
import { fastCloud } from '../../../../test/support/fast-cloud.ts'
import { newId } from '../../../base/ids.ts'
import { until } from '../../../base/wait.ts'
import { calling, deploy, NOTICE_MS, type RunRecord } from './deployed.suite.ts'
import { MAX_EACH } from './warm.ts'

const AT_ONCE = 100

let deployment: string
let callers: ReturnType<typeof calling>
const cloud = fastCloud({ COB_MAX_INVOCATIONS: '200', COB_WARM_BROWSERS: '0' })
beforeAll(async () => {
  callers = calling(cloud)
  deployment = await deploy(cloud)
})

interface Received {
  id: number | undefined
  event: string
  message?: string
  invocation?: RunRecord
  timestamp: string
}
/** Follows a run to the end of the stream, or until `enough`. */
async function follow(
  id: string,
  query = '',
  headers: Record<string, string> = {},
  enough: (received: Received) => boolean = () => false,
): Promise<Received[]> {
  const stop = new AbortController()
  const response = await cloud.fetch(`/invocations/${id}/events${query}`, { headers, signal: stop.signal })
  expect([response.status, response.headers.get('content-type')]).toEqual([200, 'text/event-stream'])
  const received: Received[] = []
  let rest = ''
  for await (const chunk of response.body!.pipeThrough(new TextDecoderStream()) as unknown as AsyncIterable<string>) {
    const frames = (rest + chunk).split('\n\n')
    rest = frames.pop()!
    for (const frame of frames.filter((text) => !text.startsWith(':'))) {
      const event = JSON.parse(/^data: (.*)$/m.exec(frame)![1]!) as Received
      if (event.event !== 'log' || received.length < 3) conforms('InvocationFollowResponse', event)
      const number = /^id: (\d+)$/m.exec(frame)?.[1]
      received.push({ ...event, id: number === undefined ? undefined : Number(number) })
      if (enough(received.at(-1)!)) {
        stop.abort()
        return received
      }
    }
  }
  return received
}
const short = (received: Received[]) => received.map(({ event, message, invocation }) => message ?? invocation?.status ?? event)
const lines = (count: number, from = 1) => Array.from({ length: count }, (_, index) => `line ${from + index}`)

describe('a follower of a run', () => {
  test('gets the current state first, then later ones, and the stream ends with the final state', async () => {
    const id = await callers.begin('slow', { payload: '600' })
    await callers.becomes(id, 'running')
    const received = await follow(id)
    expect(short(received)).toEqual(['running', 'succeeded'])
    expect(received[0]!.invocation).toMatchObject({ id, app_name: 'app', action_name: 'slow', version: 'latest', finished_at: null })
    expect(received[0]!.invocation).not.toHaveProperty('output')
    expect(received[1]!.invocation).toEqual(await callers.get(id))
  })

  test('from before the start gets every state once, and every line before the end', async () => {
    const ids = await Promise.all(Array.from({ length: 8 }, () => callers.begin('logs', { payload: '300' })))
    for (const received of await Promise.all(ids.map((id) => follow(id)))) {
      const states = received.filter(({ event }) => event === 'invocation_state').map(({ invocation }) => invocation!.status)
      expect(states).toEqual(['queued', 'running', 'succeeded'].slice(-states.length))
      expect(received.filter(({ event }) => event === 'log').map(({ message }) => message)).toEqual(lines(300))
      expect(received.at(-1)!.event).toBe('invocation_state')
    }
  })

  test.each(['', '?since=', '?since=5m', '?since=2020-01-01'])('that comes late gets all lines, then the final state, then the end: %j', async (query) => {
    const { id } = await callers.run('logs', { payload: '5' })
    expect(short(await follow(id, query))).toEqual([...lines(5), 'succeeded'])
  })

  test('with since gets no older lines, but still the final state', async () => {
    const { id } = await callers.run('logs', { payload: '5' })
    await cloud.query(`update app_events set at = at - interval '1 hour' where invocation_id = $1 and line in ('line 1', 'line 2')`, [id])
    expect(short(await follow(id, '?since=30m'))).toEqual([...lines(3, 3), 'succeeded'])
    await cloud.query(`update app_events set at = at - interval '1 hour' where invocation_id = $1`, [id])
    expect(short(await follow(id, '?since=5s'))).toEqual(['succeeded'])
  })

  test('that reconnects with the id of the last event continues after it', async () => {
    const { id } = await callers.run('logs', { payload: '20' })
    const received = await follow(id)
    expect(received.every((event, index) => event.id !== undefined && event.id > (received[index - 1]?.id ?? 0))).toBe(true)
    expect(short(await follow(id, '', { 'last-event-id': String(received[11]!.id) }))).toEqual([...lines(8, 13), 'succeeded'])
    expect(short(await follow(id, '', { 'last-event-id': String(received.at(-1)!.id) }))).toEqual([])
  })

  test('can leave at any time, and the run continues', async () => {
    const id = await callers.begin('slow', { payload: '500' })
    await follow(id, '', {}, ({ event }) => event === 'invocation_state')
    expect((await callers.becomes(id, 'succeeded', 'failed')).status).toBe('succeeded')
  })

  test('gets 404 for an unknown run, and 400 for an invalid time', async () => {
    const { id } = await callers.run('echo')
    const status = async (path: string) => (await cloud.fetch(path)).status
    expect([await status(`/invocations/${newId()}/events`), await status(`/invocations/${id}/events?since=yesterday`)]).toEqual([404, 400])
  })
})

describe('a list of runs', () => {
  let made: string[]
  const VERSIONS = ['latest', '1.0']
  beforeAll(async () => {
    await deploy(cloud, { app: 'Listed' })
    await deploy(cloud, { app: 'Listed', version: '1.0' })
    made = []
    for (let n = 0; n < 6; n++)
      made.push((await callers.run(n % 3 === 0 ? 'fail' : 'echo', { app_name: 'Listed', version: VERSIONS[n % 2], payload: String(n) })).id)
    // Set the start times a minute apart.
    for (const [n, id] of made.entries()) await cloud.query(`update invocations set started_at = now() - $2 * interval '1 minute' where id = $1`, [id, 6 - n])
  })
  const list = async (query: Record<string, string>) => {
    const response = await cloud.fetch(`/invocations?${new URLSearchParams({ app_name: 'Listed', ...query }).toString()}`)
    const items = (await response.json()) as RunRecord[]
    expect([response.status, items]).toEqual([200, expect.any(Array) as RunRecord[]])
    conforms('InvocationListResponse', items, true)
    return { ids: items.map(({ id }) => id), items, more: response.headers.get('x-has-more'), next: response.headers.get('x-next-offset') }
  }
  const those = (...which: number[]) => which.map((n) => made[n]!)

  test('is sorted newest first, in pages', async () => {
    expect((await list({})).ids).toEqual(made.toReversed())
    expect(await list({ limit: '4' })).toMatchObject({ ids: those(5, 4, 3, 2), more: 'true', next: '4' })
    expect(await list({ limit: '4', offset: '4' })).toMatchObject({ ids: those(1, 0), more: 'false', next: '0' })
  })

  test('is narrowed by each filter, and by all of them together', async () => {
    expect((await list({ action_name: 'fail' })).ids).toEqual(those(3, 0))
    expect((await list({ version: '1.0' })).ids).toEqual(those(5, 3, 1))
    expect((await list({ status: 'succeeded' })).ids).toEqual(those(5, 4, 2, 1))
    expect((await list({ status: 'running' })).ids).toEqual([])
    expect((await list({ since: '210s' })).ids).toEqual(those(5, 4, 3))
    expect((await list({ since: new Date(Date.now() - 90_000).toISOString() })).ids).toEqual(those(5))
    expect((await list({ query: 'lISTE' })).ids).toHaveLength(6)
    // Older than the time for which lines of a run are promised.
    await cloud.query(`update invocations set started_at = started_at - interval '10 days' where id = $1`, [made[0]])
    expect((await list({ since: `${11 * 24}h` })).ids).toHaveLength(6)
    expect((await list({ since: `${9 * 24}h` })).ids).toHaveLength(5)
    expect((await list({ query: 'FAI' })).ids).toEqual(those(3, 0))
    expect((await list({ query: made[4]!.slice(0, 8) })).ids).toEqual(those(4))
    expect((await list({ query: made[4]! })).ids).toEqual(those(4))
    expect((await list({ query: '%' })).ids).toEqual([])
    expect((await list({ app_name: 'lISTED' })).ids).toHaveLength(6)
    expect((await list({ app_name: 'liste' })).ids).toEqual([])
    expect((await list({ version: '1.0', action_name: 'fail', since: '4m' })).ids).toEqual(those(3))
    const [row] = await cloud.query<{ deployment_id: string }>('select deployment_id from invocations where id = $1', [made[1]])
    expect((await list({ deployment_id: row!.deployment_id })).ids).toEqual(those(5, 3, 1))
    expect((await list({ action_name: '', query: '', since: '' })).ids).toHaveLength(6)
  })

  test('contains payload and output unless they are large; the run itself contains them', async () => {
    const large = JSON.stringify('x'.repeat(70_000))
    const { id } = await callers.run('echo', { app_name: 'Listed', payload: large })
    const [item, other] = (await list({ limit: '2' })).items
    expect([item!.id, 'payload' in item!, 'output' in item!, other!.payload]).toEqual([id, false, false, '5'])
    expect(await callers.get(id)).toMatchObject({ payload: large, output: large })
  })

  test('is refused for an invalid filter, and the error names the field', async () => {
    for (const [field, value] of [
      ['status', 'done'],
      ['since', 'soon'],
      ['limit', '0'],
      ['nonsense', '1'],
    ])
      expect([field, (await cloud.fetch(`/invocations?${field}=${value}`)).status]).toEqual([field, 400])
  })
})

test(`of ${AT_ONCE} concurrent runs, a tenth of which crash, each ends once with complete events and leaves nothing`, async () => {
  const started = await Promise.all(
    Array.from({ length: AT_ONCE }, async (_, n) => {
      const [action, payload] = n % 10 === 0 ? ['crash', undefined] : n % 2 === 0 ? ['echo', String(n)] : ['logs', '40']
      const body = payload === undefined ? {} : { payload }
      const id = n % 3 === 0 ? await callers.begin(action, body) : (await callers.run(action, body)).id
      return { id, n, action }
    }),
  )
  for (const { id, n, action } of started) {
    const record = await callers.becomes(id, 'succeeded', 'failed')
    const received = await callers.received(id)
    if (action === 'crash')
      expect([record.status, record.status_reason, received]).toEqual(['failed', 'its sandbox ended: crashed', ['running', 'about to crash', 'failed']])
    else if (action === 'echo') expect([record.status, record.output, received]).toEqual(['succeeded', String(n), ['running', 'succeeded']])
    else expect([record.status, received]).toEqual(['succeeded', ['running', ...lines(40), 'succeeded']])
  }
  expect(await cloud.query('select id from invocations where finished_at is null')).toEqual([])
  const reserve = await cloud.query<{ count: string }>('select count(*) from app_versions')
  const kept = () => readdirSync(cloud.paths.appSandboxes).length
  await until('only reserves to be left', NOTICE_MS, () => kept() <= Number(reserve[0]!.count) * MAX_EACH)
  const before = kept()
  await cloud.fetch(`/deployments/${deployment}`, { method: 'DELETE' })
  await until('its reserve to be gone', NOTICE_MS, () => kept() < before)
}, 60_000)

test('nothing in these tests caused an internal error of the service', () => expect(cloud.errors).toEqual([]))
