// The events of a replay, under its link: which of them, how much of each, and for whom.
import { SignJWT } from 'jose'
import { beforeAll, describe, expect, test } from 'vitest'
import { pageData } from '../../../../test/support/page-data.ts'
import { fastCloud, type Session } from '../../../../test/support/fast-cloud.ts'
import { keepEvents, type Received } from '../../../../test/support/kept-events.ts'
import { newId } from '../../../base/ids.ts'
import { silentLog } from '../../../base/log.ts'
import { sleep, until } from '../../../base/wait.ts'
import { openDb } from '../../../store/db.ts'
import type { EventLine } from '../telemetry/shown/contract.ts'
import type { Replay } from './contract.ts'
import { insertReplay, markStarted } from './rows.ts'

const SECRET = 'kanarienvogel'
/** A video, and a boot for a pool, on a busy machine. */
const READY_MS = 20_000

const cloud = fastCloud()

const json = async <T>(response: Response, status = 200): Promise<T> => {
  expect(response.status).toBe(status)
  return (await response.json()) as T
}
const start = async (id: string, query = ''): Promise<Replay> => json(await cloud.send('POST', `/browsers/${id}/replays${query}`, {}), 201)
const link = async (id: string, replay: Replay, events: string): Promise<string> =>
  (await json<Replay[]>(await cloud.fetch(`/browsers/${id}/replays?events=${events}`))).find((one) => one.replay_id === replay.replay_id)!.replay_view_url
/** What its page is given. */
const shownBy = async ({ replay_view_url: view }: Replay) => pageData(await (await fetch(view)).text())
/** The address of the events, or of one, under a link. */
const under = (view: string, path = 'events', query = ''): string => view.replace('/view?', `/${path}?${query}`)
const lines = async (view: string, query = ''): Promise<{ events: EventLine[]; next?: number }> => json(await fetch(under(view, 'events', query)))

/** A replay of some hundred milliseconds, and what its events' clock says at its beginning and its end. */
async function recorded(id: string, query = ''): Promise<{ replay: Replay; from: number; until: number }> {
  const replay = await start(id, query)
  await sleep(200)
  await cloud.fetch(`/browsers/${id}/replays/${replay.replay_id}/stop`, { method: 'POST' })
  return { replay, ...(await timesOf(replay)) }
}
async function timesOf({ replay_id: id }: Replay): Promise<{ from: number; until: number }> {
  const row = async () =>
    (
      await cloud.query<{ clock: number; ms: number; state: string }>(
        `select clock_started_at::float8 as clock, (extract(epoch from finished_at - started_at) * 1000)::float8 as ms, state from replays where id = $1`,
        [id],
      )
    )[0]!
  await until('the video', READY_MS, async () => (await row()).state === 'ready', { everyMs: 20 })
  const { clock, ms } = await row()
  return { from: clock, until: clock + ms * 1000 }
}

describe('the events of a replay', () => {
  test('are those between its first picture and its last, in pages, and the page has a list of them', async () => {
    const { session_id: id } = await cloud.create()
    const { replay, from, until: end } = await recorded(id)
    const inside = Array.from({ length: 2_500 }, (_, at): Received => [
      'console_log',
      Math.floor(from + ((end - from) * at) / 2_499),
      { level: 'log', text: `line ${at}` },
    ])
    const before: Received[] = [
      ['console_log', from - 1_000_000, { text: SECRET }],
      ['console_log', from - 1, { text: SECRET }],
    ]
    const after: Received[] = [['console_log', Math.ceil(end) + 1, { text: SECRET }]]
    await keepEvents(cloud, id, [...before, ...inside, ...after])
    const found: EventLine[] = []
    let pages = 0
    for (let next: number | undefined = 0; next !== undefined; pages++) {
      const page = await lines(replay.replay_view_url, `after=${next}&`)
      found.push(...page.events)
      next = page.next
    }
    expect(pages).toBe(10)
    expect(found.map(({ text }) => text)).toEqual(inside.map((_, at) => `line ${at}`))
    for (const seq of [2, inside.length + 3]) expect((await fetch(under(replay.replay_view_url, `events/${seq}`))).status).toBe(404)
    expect(await shownBy(replay)).toMatchObject({ hasEvents: true })
  })

  test('that are stored twice, in runs with other ends, are shown once', async () => {
    const { session_id: id } = await cloud.create()
    const { replay, from } = await recorded(id)
    const received = Array.from({ length: 30 }, (_, at): Received => ['console_log', from + at, { text: `line ${at}` }])
    await keepEvents(cloud, id, received, { atOnce: 10 })
    await keepEvents(cloud, id, received.slice(4, 26), { first: 5, atOnce: 22 })
    const { events, next } = await lines(replay.replay_view_url)
    expect(events.map(({ seq }) => seq)).toEqual(received.map((_, at) => at + 1))
    expect(next).toBe(undefined)
  })

  test('that are only on their way to a destination, and not stored for callers, are not shown', async () => {
    const { session_id: id } = await cloud.create()
    const { replay, from } = await recorded(id)
    await keepEvents(cloud, id, [['console_log', from + 10, { text: SECRET }]])
    expect((await lines(replay.replay_view_url)).events).toHaveLength(1)
    await cloud.query(`insert into telemetry_destinations (id, name, endpoint, header_names) values ($1, $1, 'http://127.0.0.1:9', '{}')`, [id])
    await cloud.query('insert into telemetry_exports (session_id, destination_id, from_ts, is_kept) values ($1, $1, 0, false)', [id])
    expect(await lines(replay.replay_view_url)).toEqual({ events: [] })
    expect((await fetch(under(replay.replay_view_url, 'events/1'))).status).toBe(404)
    expect(await shownBy(replay)).toMatchObject({ hasEvents: false })
  })

  test('that cannot be read take only the list away: the video is shown', async () => {
    const { session_id: id } = await cloud.create()
    const { replay, from } = await recorded(id)
    await keepEvents(cloud, id, [['console_log', from + 10, { text: 'a' }]])
    await cloud.query(`update telemetry_segments set data = 'no run' where session_id = $1`, [id])
    const page = await fetch(replay.replay_view_url)
    expect([page.status, pageData(await page.text())]).toEqual([200, expect.objectContaining({ hasEvents: false })])
    expect((await fetch(under(replay.replay_view_url))).status).toBe(500)
    // Nothing looks at it any more.
    await cloud.query('delete from telemetry_segments where session_id = $1', [id])
  })

  test.each(['after=x', 'after=-1', 'after=1.5', `after=${'9'.repeat(16)}`, 'after=1&after=2'])(
    'with %s are refused, and the error names the field',
    async (query) => {
      const { session_id: id } = await cloud.create()
      const { replay } = await recorded(id)
      const refused = await fetch(under(replay.replay_view_url, 'events', `${query}&`))
      expect(await json(refused, 400)).toMatchObject({ message: expect.stringContaining('after') })
    },
  )
})

describe('a link', () => {
  let id: string
  let replay: Replay
  beforeAll(async () => {
    id = (await cloud.create()).session_id
    const made = await recorded(id)
    ;({ replay } = made)
    await keepEvents(cloud, id, [
      ['network_request', made.from + 10, { method: 'POST', url: `https://a.test/?token=${SECRET}`, headers: { authorization: SECRET }, post_data: SECRET }],
      ['network_response', made.from + 20, { status: 200, url: 'https://a.test/', headers: { 'x-a': SECRET }, body: SECRET }],
    ])
  })
  const everything = async (view: string): Promise<string> => {
    const texts = [view, ...['events', 'events/1', 'events/2'].map((path) => under(view, path))].map(async (url) => (await fetch(url)).text())
    return (await Promise.all(texts)).join('\n')
  }

  test('that says nothing of events shows them in brief, whatever is added to it', async () => {
    for (const url of [replay.replay_view_url, await link(id, replay, 'brief'), `${replay.replay_view_url}&events=full`]) {
      const shown = await everything(url)
      expect(shown).toContain('POST a.test/?token=…')
      expect(shown).not.toContain(SECRET)
    }
    expect(await link(id, replay, 'brief')).toBe(replay.replay_view_url)
  })

  test('for all of the events shows their bodies and headers, and for none of them shows none', async () => {
    const [full, none] = [await link(id, replay, 'full'), await link(id, replay, 'none')]
    expect((await json<{ blocks: unknown }>(await fetch(under(full, 'events/1')))).blocks).toEqual([
      ['Headers', `authorization: ${SECRET}`],
      ['Post data', SECRET],
    ])
    expect(await (await fetch(none)).text()).not.toContain('id="events"')
    for (const path of ['events', 'events/1']) expect((await fetch(under(none, path))).status).toBe(404)
    expect(await everything(none)).not.toContain(SECRET)
    expect((await fetch(under(none, 'video'))).status).toBe(200)
    const { replay_view_url: chosen } = await start(id, '?events=full')
    expect(chosen).toContain('jwt=')
    expect(JSON.parse(Buffer.from(new URL(chosen).searchParams.get('jwt')!.split('.')[1]!, 'base64url').toString())).toMatchObject({ events: 'full' })
  })

  test.each(['?events=all', '?events=', '?events=full&events=none', '?event=full'])('is not made for %s, and the error names the field', async (query) => {
    for (const answer of [await cloud.fetch(`/browsers/${id}/replays${query}`), await cloud.send('POST', `/browsers/${id}/replays${query}`, {})])
      expect(await json(answer, 400)).toMatchObject({ message: expect.stringContaining('event') })
  })

  test('of another replay, a changed one, one that somebody else has signed, and none at all show nothing', async () => {
    const { replay: other } = await recorded(id)
    const token = new URL(await link(id, replay, 'full')).searchParams.get('jwt')!
    const [head, claims, signature] = token.split('.') as [string, string, string]
    const more = Buffer.from(JSON.stringify({ ...(JSON.parse(Buffer.from(claims, 'base64url').toString()) as object), events: 'full', x: 1 })).toString(
      'base64url',
    )
    const forged = await new SignJWT({ events: 'full' })
      .setProtectedHeader({ alg: 'HS256' })
      .setSubject(replay.replay_id)
      .setAudience('cob-replay')
      .sign(Buffer.alloc(32, 1))
    const none = await new SignJWT({ events: 'full' }).setProtectedHeader({ alg: 'HS256' }).setSubject(other.replay_id).sign(Buffer.alloc(32))
    for (const jwt of [new URL(other.replay_view_url).searchParams.get('jwt')!, `${head}.${more}.${signature}`, forged, none, 'x', ''])
      for (const path of ['events', 'events/1']) {
        const answer = await fetch(`${cloud.url}/replays/${replay.replay_id}/${path}?jwt=${jwt}`)
        expect([answer.status, (await answer.text()).includes(SECRET)]).toEqual([404, false])
      }
  })

  test('for all of the events is not made for the token of the session alone', async () => {
    const mine = await cloud.create()
    const jwt = new URL(mine.cdp_ws_url).searchParams.get('jwt')!
    const ask = (events: string) => fetch(`${mine.base_url}/replays?jwt=${jwt}&events=${events}`)
    expect([(await ask('full')).status, (await ask('brief')).status, (await ask('none')).status]).toEqual([403, 200, 200])
  })

  test('shows nothing any more when its replay is gone', async () => {
    const { replay: old } = await recorded(id)
    await cloud.query('delete from replays where id = $1', [old.replay_id])
    for (const path of ['events', 'events/1', 'view']) expect((await fetch(under(old.replay_view_url, path))).status).toBe(404)
  })
})

test('a replay in a pool shows nothing of the caller before, even when its agent says that it began then, and nothing of the next', async () => {
  const pool = await json<{ id: string }>(await cloud.send('POST', '/browser_pools', { size: 1 }))
  const acquire = async (): Promise<Session> => json(await cloud.send('POST', `/browser_pools/${pool.id}/acquire`, { acquire_timeout_seconds: 20 }))
  const release = async (session: Session) => {
    const given = await cloud.send('POST', `/browser_pools/${pool.id}/release`, { session_id: session.session_id })
    expect(given.status).toBe(204)
  }
  const one = await acquire()
  const first = await recorded(one.session_id)
  await release(one)
  const two = await acquire()
  expect(two.session_id).toBe(one.session_id)
  const since = Number(
    (await cloud.query<{ at: number }>('select (extract(epoch from created_at) * 1000000)::float8 as at from browsers where id = $1', [one.session_id]))[0]!.at,
  )
  const second = await recorded(two.session_id)
  await keepEvents(cloud, one.session_id, [
    ['console_log', first.from + 10, { text: 'of the first' }],
    ['console_log', Math.floor(since) - 1, { text: 'just before the second' }],
    ['console_log', second.from + 10, { text: 'of the second' }],
  ])
  const texts = async ({ replay_view_url: view }: Replay) => (await lines(view)).events.map(({ text }) => text)
  expect(await texts(first.replay)).toEqual(['of the first'])
  expect(await texts(second.replay)).toEqual(['of the second'])
  // Somebody has taken over the agent, and it says that its recording began in the time of the first.
  const db = await openDb({ host: cloud.paths.postgresSocket, user: 'cob', database: 'postgres' }, silentLog)
  try {
    const began = async (browserId: string, clock = first.from) => {
      const id = newId()
      await insertReplay(db, { id, browserId, framerate: 1, maxDurationSeconds: undefined, recordAudio: false })
      return (await markStarted(db, id, new Date(), clock)).clock_started_at
    }
    expect(await began(two.session_id)).toBe(since)
    expect(await began((await cloud.create()).session_id)).toBe(first.from)
    // Or that it begins in the time of the next one.
    const later = await began(two.session_id, (Date.now() + 3600_000) * 1000)
    // The clock of the test has whole milliseconds.
    expect(later).toBeLessThan((Date.now() + 1) * 1000)
  } finally {
    await db.destroy()
  }
  await release(two)
})
