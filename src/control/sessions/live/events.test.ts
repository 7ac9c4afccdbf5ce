// The live view's list of events, over fake browsers: what a link shows of the session's events, and what ends it.
import { createServer, type ServerResponse } from 'node:http'
import { expect, test } from 'vitest'
import { telemetryFeed, type EventType, type TelemetryEvent } from '../../../agent/telemetry/contract.ts'
import { endpointOf } from '../../../../test/support/agents.ts'
import { frames } from '../../../../test/support/apps.ts'
import { fastCloud, type Session } from '../../../../test/support/fast-cloud.ts'
import { serveSockets } from '../../../../test/support/upstreams.ts'
import type { Rate } from '../../../base/bucket.ts'
import { sleep, until, within } from '../../../base/wait.ts'
import { call } from '../../../http/client.ts'
import { EventShare, liveEventLists } from './events.ts'

const SECRET = 'kanarienvogel'
/** Timeout for an event to be shown, or an end to be noticed, on a busy machine. */
const SEEN_MS = 20_000
const ON = { telemetry: { browser: Object.fromEntries(['console', 'network', 'page', 'interaction'].map((name) => [name, { enabled: true }])) } }

const cloud = fastCloud({ COB_MAX_BROWSERS: '20' })

const viewOf = (session: Session) => session.browser_live_view_url as string
const watchOf = async (session: Session): Promise<string> =>
  new URL((await fetch(`${viewOf(session)}?readOnly=true`, { redirect: 'manual' })).headers.get('location')!, cloud.url).href
/** Records an event as the session's agent does. */
async function tell({ session_id: id }: Session, type: EventType, data: Record<string, unknown>): Promise<void> {
  const endpoint = await endpointOf({ ...cloud, dataDir: cloud.paths.root }, id)
  await call(endpoint, telemetryFeed.addTelemetry, { body: { type, source: { kind: 'cdp' }, data } }, { signal: AbortSignal.timeout(SEEN_MS) })
}

interface Said {
  categories?: string[]
  events?: { line: { seq: number; text: string }; details: { blocks: [string, string][]; facts: [string, string][] } }[]
  event?: string
  error?: { code: string }
}
/** The list that a link opens. */
async function opened(view: string, query = '') {
  const leave = new AbortController()
  const response = await fetch(`${view}/events${query}`, { signal: leave.signal })
  expect([response.status, response.headers.get('content-type'), response.headers.get('cache-control')]).toEqual([200, 'text/event-stream', 'no-store'])
  const said: Said[] = []
  const read = async () => {
    for await (const { data } of frames(response)) said.push(data as Said)
  }
  const ended = read().catch(() => {})
  return {
    said,
    lines: () => said.flatMap(({ events = [] }) => events.map(({ line }) => line.text)),
    ended,
    shows: (text: string) => until(`the line "${text}"`, SEEN_MS, async () => JSON.stringify(said).includes(text), { everyMs: 20 }),
    close: () => leave.abort(),
  }
}
const request = { method: 'POST', url: `https://a.test/?token=${SECRET}`, headers: { authorization: SECRET }, post_data: SECRET }

test('a link to the session shows what happened before it was opened, and what happens then, with bodies and headers', async () => {
  const session = await cloud.create(ON)
  await tell(session, 'network_request', request)
  const list = await opened(viewOf(session))
  await list.shows('POST a.test')
  await tell(session, 'console_log', { text: 'later' })
  await list.shows('later')
  expect(list.said[0]).toEqual({ categories: expect.arrayContaining(['console', 'network']) })
  expect(list.lines()).toEqual([`POST a.test/?token=${SECRET}`, 'later'])
  expect(list.said.flatMap(({ events = [] }) => events)[0]!.details.blocks).toEqual([
    ['Headers', `authorization: ${SECRET}`],
    ['Post data', SECRET],
  ])
  list.close()
})

test('a link that may only look shows them in brief, and so does any with readOnly', async () => {
  const session = await cloud.create(ON)
  await tell(session, 'network_request', request)
  await tell(session, 'interaction_key', { key: SECRET[0] })
  for (const [view, query] of [
    [await watchOf(session), ''],
    [await watchOf(session), '?readOnly=false'],
    [viewOf(session), '?readOnly=true'],
  ] as const) {
    const list = await opened(view, query)
    await list.shows('Key')
    expect(list.lines()).toEqual(['POST a.test/?token=…', 'Key'])
    expect(JSON.stringify(list.said)).not.toContain(SECRET)
    list.close()
  }
})

test('of a session without telemetry it says so, and goes on when that is turned on', async () => {
  const session = await cloud.create()
  const list = await opened(viewOf(session))
  await until('the first word', SEEN_MS, async () => list.said.length > 0, { everyMs: 20 })
  expect(list.said).toEqual([{ categories: [] }])
  await cloud.send('PATCH', `/browsers/${session.session_id}`, ON)
  await tell(session, 'console_log', { text: 'now' })
  await list.shows('now')
  list.close()
})

test('it ends with the session, after which its link answers 410; links of nobody answer 404', async () => {
  const session = await cloud.create(ON)
  const list = await opened(viewOf(session))
  await cloud.fetch(`/browsers/${session.session_id}`, { method: 'DELETE' })
  await within('the end of the list', SEEN_MS, list.ended)
  const after = await fetch(`${viewOf(session)}/events`)
  expect([after.status, await after.json()]).toEqual([410, expect.objectContaining({ reason: 'deleted' })])
  const jwt = new URL(session.cdp_ws_url).searchParams.get('jwt')!
  for (const token of ['x', 'a'.repeat(57), jwt]) expect((await fetch(`${cloud.url}/browser/live/${token}/events`)).status).toBe(404)
})

test('a caller of a pool sees nothing of the one before or of the next, whose list the old link does not open', async () => {
  const pool = (await (await cloud.send('POST', '/browser_pools', { size: 1 })).json()) as { id: string }
  const acquire = async (): Promise<Session> => {
    const answer = await cloud.send('POST', `/browser_pools/${pool.id}/acquire`, { acquire_timeout_seconds: 20, ...ON })
    expect(answer.status).toBe(200)
    return (await answer.json()) as Session
  }
  const one = await acquire()
  await tell(one, 'console_log', { text: 'of the first' })
  const first = await opened(viewOf(one))
  await first.shows('of the first')
  expect((await cloud.send('POST', `/browser_pools/${pool.id}/release`, { session_id: one.session_id })).status).toBe(204)
  await within('the end of the list', SEEN_MS, first.ended)
  const two = await acquire()
  expect(two.session_id).toBe(one.session_id)
  await tell(two, 'console_log', { text: 'of the second' })
  const second = await opened(viewOf(two))
  await second.shows('of the second')
  expect([first.lines(), second.lines()]).toEqual([['of the first'], ['of the second']])
  expect((await fetch(`${viewOf(one)}/events`)).status).toBe(410)
  second.close()
})

test('ten are open at most, and one that is closed makes room', async () => {
  const session = await cloud.create(ON)
  const lists = await Promise.all(Array.from({ length: 10 }, () => opened(viewOf(session))))
  const refused = await fetch(`${viewOf(session)}/events`)
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '5'])
  lists[0]!.close()
  await until('room', SEEN_MS, async () => {
    const again = await fetch(`${viewOf(session)}/events`)
    await again.body!.cancel()
    return again.status === 200
  })
  for (const list of lists) list.close()
  // A HEAD request takes no place.
  for (let asked = 0; asked < 12; asked++)
    await until('a head', SEEN_MS, async () => (await fetch(`${viewOf(session)}/events`, { method: 'HEAD' })).status === 200)
})

test('it keeps a session neither in use nor from timing out', async () => {
  const session = await cloud.create({ ...ON, timeout_seconds: 3600 })
  const list = await opened(viewOf(session))
  // Longer than two checks for idle sessions: the calls above are recorded by then, and the list would show as a later use.
  await sleep(2_200)
  await cloud.query(`update browsers set last_active_at = now() - interval '2 hours' where id = $1`, [session.session_id])
  await within('the end of the list', SEEN_MS, list.ended)
  expect((await fetch(`${viewOf(session)}/events`)).status).toBe(410)
})

test('a flood is thinned out: a list begins with all that an agent keeps, and then gets a thousand events a second', () => {
  const share = new EventShare(0)
  expect([share.take(8_192, 0), share.take(8_192, 0), share.take(50, 0)]).toEqual([8_192, 1_808, 0])
  expect([share.take(4_000, 1_000), share.take(4_000, 1_500), share.take(10, 1_500)]).toEqual([1_000, 500, 0])
  // After a quiet time there is room for a burst again, and not for more than at first.
  expect([share.take(300, 60_000), share.take(20_000, 60_000)]).toEqual([300, 9_700])
})

/** An agent whose stream of events is written by `send`. */
async function agentThat(send: (response: ServerResponse) => void) {
  const server = createServer((_, response) => send(response.writeHead(200, { 'content-type': 'text/event-stream' })))
  const served = await serveSockets(server)
  return { ...served, watched: { id: 'a', categories: [], endpoint: { host: '127.0.0.1', port: served.port }, shown: 'full' as const } }
}

test('a list reads no more than its share, and says how many events its agent has forgotten meanwhile', async () => {
  const frame = (seq: number) => {
    const event: TelemetryEvent = {
      type: 'console_log',
      category: 'console',
      ts: seq,
      source: { kind: 'cdp' },
      data: { text: `line ${seq}`, rest: 'x'.repeat(5_000) },
    }
    return `data: ${JSON.stringify({ seq, event })}\n\n`
  }
  let goOn = () => {}
  await using agent = await agentThat((response) => {
    response.write(frame(1) + frame(2))
    goOn = () => void response.end(frame(9))
  })
  const read = async (rate?: Rate) => {
    const said: unknown[] = []
    for await (const one of liveEventLists(rate)(agent.watched, AbortSignal.timeout(SEEN_MS))) {
      if ('events' in one) said.push(...one.events.map(({ line }) => line.seq))
      else if ('skipped' in one) said.push(`${one.skipped} skipped`)
      if (said.at(-1) === 2) goOn()
    }
    return said
  }
  expect(await read({ perSecond: 200_000, atOnce: 1_000 })).toEqual([1, 2, '6 skipped', 9])
  // When the agent itself left events out, it reports that in its own events.
  expect(await read()).toEqual([1, 2, 9])
})

test('a list reads no more than its share of an agent that sends frames without events, either', async () => {
  let sent = 0
  const beats = ': x\n\n'.repeat(10_000)
  await using agent = await agentThat((response) => {
    const more = () => {
      do sent += beats.length
      while (response.write(beats) && !response.destroyed)
      response.once('drain', () => setImmediate(more))
    }
    more()
  })
  const leave = AbortSignal.timeout(1_000)
  const reading = (async () => {
    for await (const _ of liveEventLists({ perSecond: 10_000, atOnce: 10_000 })(agent.watched, leave));
  })()
  await expect(reading).rejects.toThrow()
  // Data in the buffers of the connection is allowed. A list that reads everything gets some hundred megabytes in this time.
  expect(sent).toBeLessThan(16 * 1024 * 1024)
})

test('a viewer who has left before the list is opened takes no place', async () => {
  const list = liveEventLists()
  const watched = { id: 'a', categories: [], endpoint: { socketPath: '/nowhere' }, shown: 'full' as const }
  const open = (signal: AbortSignal) => () => list(watched, signal)
  for (let asked = 0; asked < 11; asked++) expect(open(AbortSignal.abort(new Error('gone')))).not.toThrow()
  for (let asked = 0; asked < 10; asked++) expect(open(new AbortController().signal)).not.toThrow()
  expect(open(new AbortController().signal)).toThrow('its limit')
})
