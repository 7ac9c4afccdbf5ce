// A right ends with the answer to the call that removes it: the next call is refused, however shortly before the right was used.
import { describe, expect, test } from 'vitest'
import { fastCloud } from '../../../test/support/fast-cloud.ts'
import { signedIn } from '../../../test/support/people.ts'
import { silentLog } from '../../base/log.ts'
import { openDb } from '../../store/db.ts'
import { listenForEvents, notify } from '../../store/events.ts'
import { oauthFlow } from './oauth/flow.suite.ts'
import { Remembered, Rights } from './rights.ts'

const cloud = fastCloud({ COB_WARM_BROWSERS: '0' })

const { tokensFor } = oauthFlow(() => cloud)
const asked = async (headers: Record<string, string>, path = '/browsers', init: RequestInit = {}) =>
  (await fetch(cloud.url + path, { ...init, headers: { ...headers, ...(init.headers as Record<string, string>) } })).status
const bearer = (token: string) => ({ authorization: `Bearer ${token}` })
const made = async <T = { id: string; key: string }>(path: string, body: object) => (await (await cloud.send('POST', path, body)).json()) as T
const makeKey = (more: object = {}) => made('/org/api_keys', { name: 'ends', ...more })
const takesAway = async (method: string, path: string, body?: object) => {
  const response = body === undefined ? await cloud.fetch(path, { method }) : await cloud.send(method, path, body)
  expect([200, 201, 204]).toContain(response.status)
}
const cookieOf = async (key: string) => {
  const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ api_key: key }) }
  return { cookie: (await fetch(`${cloud.url}/sign-in/key`, init)).headers.getSetCookie()[0]!.split(';')[0]!, 'x-cob-dashboard': '1' }
}
const pageOf = ({ cookie }: { cookie: string }) => ({ cookie, 'x-cob-dashboard': '1' })

/** A caller's credential, the call that removes the right, and the expected answer after it. */
type Case = () => Promise<{ shows: Record<string, string>; end: () => Promise<unknown>; then?: number; path?: string; init?: RequestInit }>

const cases: Record<string, Case> = {
  'a key that is deleted': async () => {
    const { id, key } = await makeKey()
    return { shows: bearer(key), end: () => takesAway('DELETE', `/org/api_keys/${id}`) }
  },
  'a key that is rotated, with no days left': async () => {
    const { id, key } = await makeKey()
    return { shows: bearer(key), end: () => takesAway('POST', `/org/api_keys/${id}/rotate`, { expire_in_days: 0 }) }
  },
  'the key of a project that is deleted': async () => {
    const { id } = await made('/org/projects', { name: 'is deleted' })
    const { key } = await makeKey({ project_id: id })
    return { shows: bearer(key), end: () => takesAway('DELETE', `/org/projects/${id}`) }
  },
  'a key for a project that is archived': async () => {
    const { id } = await made('/org/projects', { name: 'is archived' })
    return {
      shows: { ...bearer(cloud.key), 'x-kernel-project-id': id },
      end: () => takesAway('PATCH', `/org/projects/${id}`, { status: 'archived' }),
      then: 404,
    }
  },
  'a sign-in whose key is deleted': async () => {
    const { id, key } = await makeKey()
    return { shows: await cookieOf(key), end: () => takesAway('DELETE', `/org/api_keys/${id}`) }
  },
  'the oldest sign-in of a key that signs in once too often': async () => {
    const { id, key } = await makeKey()
    const shows = await cookieOf(key)
    await cloud.query(
      `insert into web_sessions (id, hash, key_id, expires_at) select $1 || n, sha256(($1 || n)::bytea), $1, now() + interval '1 hour' from generate_series(1, 99) n`,
      [id],
    )
    return { shows, end: () => cookieOf(key) }
  },
  'a person who is removed': async () => {
    const person = await signedIn(cloud, { '': 'member' })
    return { shows: pageOf(person), end: () => takesAway('DELETE', `/org/members/${person.id}`) }
  },
  'a person whose role is lowered': async () => {
    const person = await signedIn(cloud, { '': 'member' })
    const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' }
    return { shows: pageOf(person), path: '/profiles', init, end: () => takesAway('PATCH', `/org/members/${person.id}`, { role: 'viewer' }), then: 403 }
  },
  'a program of a person who is removed': async () => {
    const person = await signedIn(cloud, { '': 'member' })
    const { access_token: token } = await tokensFor(person)
    return { shows: bearer(token), end: () => takesAway('DELETE', `/org/members/${person.id}`) }
  },
  'the token of a browser that is deleted': async () => {
    const { session_id: id, cdp_ws_url: url } = await cloud.create()
    const jwt = new URL(url).searchParams.get('jwt')!
    return { shows: {}, path: `/browsers/${id}/replays?jwt=${jwt}`, end: () => takesAway('DELETE', `/browsers/${id}`), then: 404 }
  },
}

test.each(Object.entries(cases))('%s is refused from the answer on', async (_what, begin) => {
  const { shows, end, then = 401, path, init } = await begin()
  expect([200, 201]).toContain(await asked(shows, path, init))
  await end()
  expect(await asked(shows, path, init)).toBe(then)
})

test('a deleted key lets nobody in who asks after the answer, however many ask meanwhile', async () => {
  for (let round = 0; round < 5; round++) {
    const { id, key } = await makeKey()
    let isOver = false
    const late: number[] = []
    const hammer = async () => {
      for (let after = 0; after < 3;) {
        const beganAfter = isOver
        const status = await asked(bearer(key))
        if (!beganAfter) continue
        after++
        late.push(status)
      }
    }
    const all = Promise.all(Array.from({ length: 8 }, hammer))
    await takesAway('DELETE', `/org/api_keys/${id}`)
    isOver = true
    await all
    expect(new Set(late)).toEqual(new Set([401]))
  }
})

describe('what is remembered', () => {
  test('is asked for once, until a right is taken away; what was read before that is not kept', async () => {
    const known = new Remembered<number>()
    let answers = 0
    const ask = async () => ({ value: ++answers })
    expect([await known.get('a', ask), await known.get('a', ask), await known.get('b', ask)]).toEqual([1, 1, 2])
    known.forget()
    const { promise, resolve } = Promise.withResolvers<void>()
    const asking = known.get('a', async () => (await promise, ask()))
    known.forget()
    resolve()
    expect([await asking, await known.get('a', ask), await known.get('a', ask)]).toEqual([3, 4, 4])
  })

  test('is not kept for longer than it is true, nor when the answer is no', async () => {
    const known = new Remembered<number>()
    expect(await known.get('a', async () => ({ value: 1, leftMs: 0 }))).toBe(1)
    await expect(known.get('a', () => Promise.reject(new Error('no')))).rejects.toThrow('no')
    expect(await known.get('a', async () => ({ value: 2 }))).toBe(2)
  })

  test('is forgotten by every other process with the database, by a notice; and when the notices come again after a break', async () => {
    await using scope = new AsyncDisposableStack()
    const address = { host: cloud.paths.postgresSocket, user: 'cob', database: 'postgres' }
    const db = await openDb(address, silentLog)
    scope.defer(() => db.destroy())
    const notifier = scope.use(listenForEvents(address, silentLog))
    const other = scope.use(new Rights(db, silentLog, notifier)).remember<number>()
    const ask = async () => ({ value: performance.now() })
    // The cache may be cleared when it begins to listen, so wait until an answer stays in it.
    const isKept = async () => (await other.get('a', ask)) === (await other.get('a', ask))
    await expect.poll(isKept, { timeout: 10_000 }).toBe(true)
    let forgotten = 0
    const count = () => void forgotten++
    notifier.on('rights', count, count)
    await expect
      .poll(async () => (await cloud.query(`select pid from pg_stat_activity where application_name = 'cob events' and state = 'idle'`)).length)
      .toBe(2)
    const { id } = await makeKey()
    // Notices arrive in order: after this one, no notice of an earlier test is under way.
    const { promise: isQuiet, resolve } = Promise.withResolvers<void>()
    notifier.on('look', (text) => text === 'quiet' && resolve())
    await notify(db, 'look', 'quiet')
    await isQuiet
    forgotten = 0
    const before = await other.get('a', ask)
    await takesAway('DELETE', `/org/api_keys/${id}`)
    await expect.poll(() => forgotten, { timeout: 10_000 }).toBeGreaterThan(0)
    expect(await other.get('a', ask)).not.toBe(before)
    const [seen, again] = [forgotten, await other.get('a', ask)]
    await cloud.query(`select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'cob events'`)
    await expect.poll(() => forgotten, { timeout: 10_000 }).toBeGreaterThan(seen)
    expect(await other.get('a', ask)).not.toBe(again)
  })
})
