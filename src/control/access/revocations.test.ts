// Requests end with the key or sign-in that made them: on every replica, within seconds, and with a reason.
import { createHash, randomBytes } from 'node:crypto'
import { beforeAll, describe, expect, test } from 'vitest'
import { readFrames } from '../../../test/support/apps.ts'
import { conforms } from '../../../test/support/contract.ts'
import { fastCloud, type FastCloud } from '../../../test/support/fast-cloud.ts'
import { asPage } from '../../../test/support/people.ts'
import { replicaCalls, type ReplicaCalls } from '../../../test/support/replicas.ts'
import { twoReplicas } from '../../../test/support/two-replicas.ts'
import { form } from '../../../test/support/visitor.ts'
import { silentLog } from '../../base/log.ts'
import { within } from '../../base/wait.ts'
import { fault, type Fault } from '../../http/fault.ts'
import type { Principal } from '../../http/route.ts'
import type { Db } from '../../store/db.ts'
import { calling, deploy } from '../apps/invocations/deployed.suite.ts'
import type { CreatedApiKey } from './api-keys/contract.ts'
import { watchKeys } from './revocations.ts'

/** The promised time. A checked key is cached for 2 s. Requests that run longer than a second are checked every half second. */
const ENDS_MS = 5_000
const BACK = 'http://localhost:5000/callback'
const REASON = { code: 'unauthorized', message: 'the API key of this request was deleted or has expired' }

const makeKey = async (calls: Pick<FastCloud, 'send'>) => (await (await calls.send('POST', '/org/api_keys', { name: 'streams' })).json()) as CreatedApiKey

/** Opens a stream of events; resolves when its first bytes are there. `last` is its last event. */
async function open(calls: ReplicaCalls, path: string): Promise<{ last: Promise<unknown> }> {
  const response = await calls.fetch(path)
  const frames = readFrames(response)
  frames.catch(() => {})
  return { last: frames.then((read) => read.at(-1)?.data) }
}

describe('with one service', () => {
  let deployment: string
  let run: string
  const cloud = fastCloud({ COB_WARM_BROWSERS: '0' })
  beforeAll(async () => {
    deployment = await deploy(cloud)
    run = await calling(cloud).begin('hang')
  })

  const paths = () => [`/deployments/${deployment}/events`, `/invocations/${run}/events`]
  const fifty = async (key: string) => {
    const calls = replicaCalls(cloud.url, key)
    return Promise.all(Array.from({ length: 50 }, (_, index) => open(calls, paths()[index % 2]!)))
  }
  const lastOf = (streams: { last: Promise<unknown> }[], ms: number) => within('the streams to end', ms, Promise.all(streams.map(({ last }) => last)))

  test('fifty streams of a key that is deleted end with an error event, and those of other keys go on', async () => {
    const { id, key } = await makeKey(cloud)
    const other = await open(replicaCalls(cloud.url, cloud.key), paths()[0]!)
    const streams = await fifty(key)
    expect((await cloud.fetch(`/org/api_keys/${id}`, { method: 'DELETE' })).status).toBe(204)
    for (const last of await lastOf(streams, ENDS_MS)) {
      conforms('DeploymentFollowResponse', last)
      expect(last).toMatchObject({ event: 'error', error: REASON })
    }
    expect(await Promise.race([other.last, Promise.resolve('goes on')])).toBe('goes on')
  })

  test('fifty streams of a key end when it expires', async () => {
    const { id, key } = await makeKey(cloud)
    const streams = await fifty(key)
    await cloud.query(`update api_keys set expires_at = now() + interval '1 second' where id = $1`, [id])
    for (const last of await lastOf(streams, 1_000 + ENDS_MS)) expect(last).toMatchObject({ event: 'error', error: REASON })
    expect(await cloud.query('select from api_keys where id = $1 and expires_at <= now()', [id])).toHaveLength(1)
  })

  test('a call that waits is answered with 401', async () => {
    const { id, key } = await makeKey(cloud)
    const answer = calling({ ...cloud, ...replicaCalls(cloud.url, key) }).post('hang')
    await expect
      .poll(async () => (await cloud.query(`select from invocations where starts_with(caller, $1) and state = 'running'`, [id])).length, { timeout: 20_000 })
      .toBe(1)
    await cloud.fetch(`/org/api_keys/${id}`, { method: 'DELETE' })
    const { status } = await within('the answer', ENDS_MS, answer)
    expect(status).toBe(401)
  })
})

describe('with two replicas', { timeout: 60_000 }, () => {
  const { shared, one, two } = twoReplicas()

  test('a key that is deleted at one stops at the other, with its streams', async () => {
    const deployment = await deploy({ ...one, query: shared.query })
    const { id, key } = await makeKey(one)
    const atTwo = replicaCalls(two.url, key)
    const stream = await open(atTwo, `/deployments/${deployment}/events`)
    expect((await atTwo.fetch('/browsers')).status).toBe(200)
    expect((await one.fetch(`/org/api_keys/${id}`, { method: 'DELETE' })).status).toBe(204)
    const until = performance.now() + ENDS_MS
    expect(await within('the stream to end', ENDS_MS, stream.last)).toMatchObject({ event: 'error', error: REASON })
    await expect.poll(async () => (await atTwo.fetch('/browsers')).status, { timeout: Math.max(1, until - performance.now()) }).toBe(401)
  })

  test('a sign-in and a grant that begin at one are known at the other, and end at both', async () => {
    const { key } = (await (await one.send('POST', '/org/api_keys', { name: 'signs in' })).json()) as { key: string }
    const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ api_key: key }) }
    const cookie = (await fetch(`${one.url}/sign-in/key`, init)).headers.getSetCookie()[0]!.split(';')[0]!
    const [atOne, atTwo] = [asPage(one.url, cookie), asPage(two.url, cookie)]
    expect((await atTwo.fetch('/me')).status).toBe(200)

    // One replica grants the access, the other one issues the token.
    const verifier = randomBytes(32).toString('base64url')
    const request = {
      client_id: 'kernel-cli',
      redirect_uri: BACK,
      response_type: 'code',
      code_challenge: createHash('sha256').update(verifier).digest('base64url'),
      code_challenge_method: 'S256',
    }
    const { redirect_to: to } = (await (await atOne.send('POST', '/authorize', { request, allow: true })).json()) as { redirect_to: string }
    const code = new URL(to).searchParams.get('code')!
    const call = async (url: string, path: string, fields: Record<string, string>) => fetch(url + path, form({ client_id: 'kernel-cli', ...fields }))
    const first = { grant_type: 'authorization_code', code, redirect_uri: BACK, code_verifier: verifier }
    // At both replicas at once: one request gets a token, and the other gets none.
    const answers = await Promise.all([one.url, two.url].map((url) => call(url, '/token', first)))
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 400])

    const again = (await (await atTwo.send('POST', '/authorize', { request, allow: true })).json()) as { redirect_to: string }
    const next = { ...first, code: new URL(again.redirect_to).searchParams.get('code')! }
    const tokens = (await (await call(one.url, '/token', next)).json()) as { access_token: string; refresh_token: string }
    const refreshed = await Promise.all(
      [one.url, two.url].map((url) => call(url, '/token', { grant_type: 'refresh_token', refresh_token: tokens.refresh_token })),
    )
    expect(refreshed.map(({ status }) => status).toSorted()).toEqual([200, 400])
    const asked = async (url: string) => (await fetch(`${url}/me`, { headers: { authorization: `Bearer ${tokens.access_token}` } })).status
    expect([await asked(one.url), await asked(two.url)]).toEqual([200, 200])
    expect((await call(one.url, '/revoke', { token: tokens.access_token })).status).toBe(200)
    expect(await asked(one.url)).toBe(401)
    await expect.poll(() => asked(two.url), { timeout: ENDS_MS }).toBe(401)

    expect((await atOne.send('POST', '/sign-out')).status).toBe(204)
    expect((await atOne.fetch('/me')).status).toBe(401)
    await expect.poll(async () => (await atTwo.fetch('/me')).status, { timeout: ENDS_MS }).toBe(401)
  })
})

describe('the watch', () => {
  const principal = (id: string): Principal => ({ by: { kind: 'key', id, project: undefined, deployment: undefined }, project: 'p' })

  test('goes on when the database is away for a while, and looks no key up whose requests are over or have just begun', async () => {
    const asked: string[][] = []
    const valid = (ids: string[]) => {
      asked.push(ids)
      return asked.length === 1 ? Promise.reject(new Error('away')) : Promise.resolve(new Set<string>())
    }
    await using watch = watchKeys(undefined as unknown as Db, silentLog, valid)
    const ended = Promise.withResolvers<Fault>()
    const over = watch.guard(principal('over'), () => ended.reject(new Error('a request that is over was ended')))
    over?.[Symbol.dispose]()
    using _long = watch.guard(principal('long'), ended.resolve)
    const begun = performance.now()
    expect((await within('the request to be ended', 10_000, ended.promise)).body()).toEqual(fault.unauthorized(REASON.message).body())
    // Not within its first second: the rotation by which a key ends itself still returns the new key.
    expect(performance.now() - begun).toBeGreaterThan(900)
    expect(asked).toEqual([['long'], ['long']])
  })

  test('ends what a person has begun with a role that they have no more there, and nothing else', async () => {
    const now: Record<string, 'viewer' | 'member' | undefined> = { 'ann a': 'viewer', 'ann b': 'member', 'bob a': 'member' }
    const roles = async () => (person: string, project: string) => now[`${person} ${project}`]
    await using watch = watchKeys(undefined as unknown as Db, silentLog, async (ids) => new Set(ids), roles)
    const ended: string[] = []
    const open = (person: string, project: string, role: 'viewer' | 'member') => {
      const by = { kind: 'user', id: person, name: null, email: null, via: { kind: 'dashboard', id: `of ${person}` }, role, project: undefined } as const
      return watch.guard({ by: { ...by, projects: [], deployment: undefined }, project }, ({ message }) =>
        ended.push(`${person} ${project} ${role}: ${message}`),
      )
    }
    using _all = new DisposableStack()
    for (const [person, project, role] of [
      ['ann', 'a', 'member'],
      ['ann', 'a', 'viewer'],
      ['ann', 'b', 'member'],
      ['ann', 'gone', 'viewer'],
      ['bob', 'a', 'viewer'],
    ] as const)
      _all.use(open(person, project, role))
    await expect.poll(() => ended.length, { timeout: 10_000 }).toBeGreaterThan(1)
    const why = 'the role that this request was begun with has ended'
    expect(new Set(ended)).toEqual(new Set([`ann a member: ${why}`, `ann gone viewer: ${why}`]))
  })

  test('looks at the roles of all others when a request is over while the database is asked', async () => {
    const by = { kind: 'user', id: 'ann', name: null, email: null, via: { kind: 'dashboard', id: 'of ann' }, role: 'member', project: undefined } as const
    const ann: Principal = { by: { ...by, projects: [], deployment: undefined }, project: 'p' }
    const ended = new Set<string>()
    const open = (name: string, principal: Principal) => watch.guard(principal, ({ message }) => ended.add(`${name}: ${message}`))!
    const valid = async (ids: string[]) => {
      overMeanwhile.keys[Symbol.dispose]()
      return new Set(ids)
    }
    const roles = async () => {
      overMeanwhile.roles[Symbol.dispose]()
      return () => undefined
    }
    await using watch = watchKeys(undefined as unknown as Db, silentLog, valid, roles)
    const overMeanwhile = { keys: open('over', principal('other')), roles: open('over', ann) }
    using _left = open('goes on', ann)
    await expect.poll(() => [...ended], { timeout: 10_000 }).toEqual(['goes on: the role that this request was begun with has ended'])
  })

  test('leaves holders of session tokens alone', async () => {
    await using watch = watchKeys(undefined as unknown as Db, silentLog)
    expect(watch.guard({ by: { kind: 'session', lease: 0, id: 's' }, project: 'p' }, () => {})).toBeUndefined()
  })
})
