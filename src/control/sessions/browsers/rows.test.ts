// Lists of sessions over real HTTP: order, pages, and every filter. Most rows are inserted as sessions that ended long ago.
import { DEFAULT_PROJECT } from '../../access/projects/resolve.ts'
import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { conforms } from '../../../../test/support/contract.ts'
import { startFastCloud, type FastCloud, type Session } from '../../../../test/support/fast-cloud.ts'
import { silentLog } from '../../../base/log.ts'
import { connectDb } from '../../../store/db.ts'
import { embeddedAddress } from '../../../store/embedded.ts'
import { findBrowser, takeBackOptions, updateRunning } from './rows.ts'

const ENDED = 130
const HOUR_MS = 3_600_000

let cloud: FastCloud
let live: Session[]
const ELSEWHERE = { id: 'other00000000000000000000', name: 'Elsewhere' }
beforeAll(async () => {
  // Its sessions ended long ago.
  cloud = await startFastCloud({ COB_KEEP_ENDED_DAYS: '36500' })
  const host = readFileSync(cloud.paths.hostId, 'utf8').trim()
  // A row of an earlier version, which did not know kiosk_mode: it is shown all the same.
  const options = JSON.stringify({ headless: false, stealth: false, viewport: { width: 1920, height: 1080, refresh_rate: 60 } })
  const long = Date.now() - 1000 * HOUR_MS
  const insert = (id: string, state: string, where: string, name: string, tags: object, from: Date, to: Date | null) =>
    cloud.query(
      `insert into browsers (id, state, scope, name, tags, options, made_at, created_at, last_active_at, deleted_at, project_id)
       values ($1, $2, $3, $4, $5, $6, $7, $7, $7, $8, '${DEFAULT_PROJECT}')`,
      [id, state, where, name, JSON.stringify(tags), options, from, to],
    )
  for (let n = 0; n < ENDED; n++) {
    const from = long + n * HOUR_MS
    await insert(
      `old${String(n).padStart(21, '0')}`,
      'deleted',
      host,
      `Old-${n}`,
      { old: 'yes', parity: n % 2 === 0 ? 'even' : 'odd' },
      new Date(from),
      new Date(from + HOUR_MS / 2),
    )
  }
  await insert(ELSEWHERE.id, 'running', 'elsewhere', ELSEWHERE.name, {}, new Date(), null)
  live = []
  for (const body of [
    { name: 'Alpha', tags: { team: 'a', env: 'prod' } },
    { name: 'beta', tags: { team: 'a', env: 'test' } },
    { tags: { 'odd[key]': 'x', 'a b': 'c&d' } },
    {},
  ])
    live.push(await cloud.create(body))
})
afterAll(() => cloud[Symbol.asyncDispose]())

interface Listed {
  ids: string[]
  sessions: Session[]
  more: string | null
  next: string | null
}
async function list(query: string): Promise<Listed> {
  const response = await cloud.fetch(`/browsers?${query}`)
  expect(response.status).toBe(200)
  const sessions = (await response.json()) as Session[]
  conforms('BrowserListResponse', sessions, true)
  return { sessions, ids: sessions.map(({ session_id }) => session_id), more: response.headers.get('x-has-more'), next: response.headers.get('x-next-offset') }
}
const liveIds = () => live.map(({ session_id }) => session_id).toReversed()

describe('a list of sessions', () => {
  test('contains the live sessions by default, newest first', async () => {
    expect((await list('')).ids).toEqual(liveIds())
    expect((await list('status=active')).ids).toEqual(liveIds())
  })

  test('with status deleted contains only deleted ones; with status all it contains all', async () => {
    const deleted = await list('status=deleted&limit=100')
    expect(deleted.sessions.every(({ deleted_at, kiosk_mode: kiosk }) => deleted_at !== undefined && kiosk === false)).toBe(true)
    expect(deleted.ids.some((id) => liveIds().includes(id))).toBe(false)
    expect((await list('status=all&limit=100')).ids.slice(0, 4)).toEqual(liveIds())
  })

  test('with include_deleted, the older option, contains all; status overrides it', async () => {
    expect((await list('include_deleted=true&limit=100')).ids).toEqual((await list('status=all&limit=100')).ids)
    expect((await list('include_deleted=false')).ids).toEqual(liveIds())
    expect((await list('include_deleted=true&status=active')).ids).toEqual(liveIds())
  })
})

test('a session of another service on the same database is neither listed nor found nor deleted', async () => {
  expect((await list('status=all&query=elsewhere')).ids).toEqual([])
  expect((await list(`status=all&query=${ELSEWHERE.id}`)).ids).toEqual([])
  for (const key of [ELSEWHERE.id, ELSEWHERE.name]) {
    expect((await cloud.fetch(`/browsers/${key}?include_deleted=true`)).status).toBe(404)
    expect((await cloud.fetch(`/browsers/${key}`, { method: 'DELETE' })).status).toBe(404)
  }
  expect((await cloud.query('select state from browsers where id = $1', [ELSEWHERE.id]))[0]!.state).toBe('running')
})

describe('a page of a list', () => {
  test('has 20 sessions by default, and 100 at most', async () => {
    expect((await list('status=deleted')).ids).toHaveLength(20)
    expect((await list('status=deleted&limit=7')).ids).toHaveLength(7)
    expect((await list('status=deleted&limit=100')).ids).toHaveLength(100)
    // The CLI asks for one row more than a page to see whether there is a next page.
    expect((await list('status=deleted&limit=101')).ids).toHaveLength(100)
    expect((await list('status=deleted&limit=1000000')).ids).toHaveLength(100)
  })

  test('says where the next page begins; the last one says that there is none, with offset 0', async () => {
    expect(await list('status=deleted&limit=100')).toMatchObject({ more: 'true', next: '100' })
    expect(await list('status=deleted&limit=100&offset=100')).toMatchObject({ more: 'false', next: '0' })
    expect(await list('status=deleted&limit=30&offset=100')).toMatchObject({ more: 'false', next: '0' })
    expect(await list('status=deleted&limit=29&offset=100')).toMatchObject({ more: 'true', next: '129' })
    expect(await list('status=deleted&limit=1000&offset=20')).toMatchObject({ more: 'true', next: '120' })
    expect(await list('status=deleted&offset=5000')).toMatchObject({ more: 'false', next: '0', ids: [] })
  })

  test('follows the one before, so that all pages give every session once, in one order', async () => {
    const walked: string[] = []
    for (let offset = 0, more = true; more;) {
      const page = await list(`status=all&limit=17&offset=${offset}`)
      walked.push(...page.ids)
      more = page.more === 'true'
      offset = Number(page.next)
    }
    expect(walked).toHaveLength(ENDED + live.length)
    expect(new Set(walked).size).toBe(walked.length)
  })
})

describe('a filter by tags', () => {
  test('selects the sessions that have all of the pairs exactly', async () => {
    expect((await list('tags[team]=a')).ids).toEqual([live[1]!.session_id, live[0]!.session_id])
    expect((await list('tags[team]=a&tags[env]=prod')).ids).toEqual([live[0]!.session_id])
    expect((await list('tags%5Bteam%5D=a&tags%5Benv%5D=test')).ids).toEqual([live[1]!.session_id])
    for (const none of ['tags[team]=A', 'tags[team]=', 'tags[team]=a&tags[env]=stage', 'tags[nothing]=x', 'tags[team]=%25'])
      expect((await list(none)).ids).toEqual([])
    expect((await list('tags[a%20b]=c%26d')).ids).toEqual([live[2]!.session_id])
  })

  test('can be combined with status, query and pages', async () => {
    const even = await list('tags[parity]=even&status=deleted&limit=100')
    expect([even.ids.length, even.more]).toEqual([ENDED / 2, 'false'])
    expect((await list('tags[parity]=odd&status=deleted&query=old-11&limit=100')).sessions.map(({ name }) => name)).toEqual([
      'Old-119',
      'Old-117',
      'Old-115',
      'Old-113',
      'Old-111',
      'Old-11',
    ])
  })

  test.each(['tags=a', 'tags[]=a', 'tags[a][b]=c', 'tags[a]=b&tags=c', 'tags[a]=%00', 'tags[%00]=a'])('in the form ?%s answers 400', async (query) => {
    expect((await cloud.fetch(`/browsers?${query}`)).status).toBe(400)
  })
})

describe('a filter by query', () => {
  test('finds parts of names, in any case', async () => {
    expect((await list('query=alp')).ids).toEqual([live[0]!.session_id])
    expect((await list('query=LPHA')).ids).toEqual([live[0]!.session_id])
    expect((await list('query=et')).ids).toEqual([live[1]!.session_id])
    expect((await list('query=nothing-like-it')).ids).toEqual([])
    await cloud.send('PATCH', `/browsers/${live[2]!.session_id}`, { name: 'Éclair-Ж' })
    expect((await list(`query=${encodeURIComponent('éCLAIR-ж')}`)).ids).toEqual([live[2]!.session_id])
  })

  test('finds a session by its id', async () => {
    for (const { session_id } of live) expect((await list(`query=${session_id}`)).ids).toEqual([session_id])
  })

  test('treats the wildcards of SQL as ordinary characters', async () => {
    for (const wild of ['%25', '_', 'a%25a', '\\']) expect((await list(`query=${wild}`)).ids).toEqual([])
  })

  test('that is empty excludes nothing', async () => {
    expect((await list('query=')).ids).toEqual(liveIds())
  })
})

test.each([
  'status=live',
  'status=',
  'include_deleted=yes',
  'include_deleted=',
  'limit=0',
  'limit=ten',
  'offset=-1',
  'page=2',
  'status=all&status=all',
  'query=a&query=b',
  `query=${'x'.repeat(256)}`,
  'query=%00',
])('an invalid list parameter answers 400: ?%s', async (query) => {
  expect((await cloud.fetch(`/browsers?${query}`)).status).toBe(400)
})

test('options of an update that has failed are taken back; what another update has changed since stays', async () => {
  const db = connectDb(embeddedAddress(cloud.paths), silentLog)
  try {
    const { session_id: id } = await cloud.create({ network: { allowed_hosts: ['a.test', 'b.test'] } })
    const before = (await findBrowser(db, { scope: readFileSync(cloud.paths.hostId, 'utf8').trim(), project: undefined }, id, false))!
    const viewport = { width: 800, height: 600, refresh_rate: 60 }
    await updateRunning(db, before, { options: { ...before.options, viewport, start_url: 'about:blank' } })
    expect((await cloud.send('PATCH', `/browsers/${id}`, { network: { allowed_hosts: ['a.test'] } })).status).toBe(200)
    const now = (await takeBackOptions(db, before, ['viewport', 'start_url'], before.options))!
    expect(now.options).toEqual({ ...before.options, network: { ...now.options.network, allowed_hosts: ['a.test'] } })
    await cloud.fetch(`/browsers/${id}?wait=true`, { method: 'DELETE' })
    expect(await takeBackOptions(db, before, ['viewport'], before.options)).toBeUndefined()
  } finally {
    await db.destroy()
  }
})
