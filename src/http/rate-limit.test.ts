// The limit of requests per key: its counting, and the answers of a service with it.
import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { conforms } from '../../test/support/contract.ts'
import { fastCloud, startFastCloud, type Session } from '../../test/support/fast-cloud.ts'
import { newId } from '../base/ids.ts'
import { newKey } from '../control/access/keys.ts'
import { DEFAULT_PROJECT } from '../control/access/projects/resolve.ts'
import { RateLimit } from './rate-limit.ts'

describe('counting', () => {
  /** A limit with a clock that only the test moves. */
  const limited = (perMinute: number, maxKeys?: number) => {
    const clock = { seconds: 0 }
    const limit = new RateLimit(perMinute, { now: () => clock.seconds * 1000, ...(maxKeys !== undefined && { maxKeys }) })
    const take = (key = 'a') => limit.take(key)
    /** Uses up the limit of a key. */
    const drain = (key?: string) => {
      let taken = 0
      while (take(key).retryAfterSeconds === undefined) taken++
      return taken
    }
    return { clock, take, drain }
  }

  test('has room again when the wait that it named is over, and not before; refused requests do not make it longer', () => {
    const { clock, take, drain } = limited(5)
    clock.seconds = 10.4
    expect(drain()).toBe(5)
    for (const seconds of [10.4, 20, 42.3, 69.9, 70.9]) {
      clock.seconds = seconds
      const wait = take().retryAfterSeconds!
      clock.seconds = seconds + wait - 1
      expect(take().retryAfterSeconds).toBeGreaterThan(0)
    }
    clock.seconds = 20 + 51
    expect(take()).toEqual({ remaining: 4, retryAfterSeconds: undefined })
  })

  test('lets no minute have more than the limit, wherever it begins', () => {
    const { clock, drain } = limited(20)
    const taken: number[] = []
    // A client that makes every allowed request, as soon as it is allowed.
    for (; clock.seconds < 400; clock.seconds += 0.25) for (let more = drain(); more > 0; more--) taken.push(clock.seconds)
    const most = Math.max(...taken.map((start) => taken.filter((at) => at >= start && at < start + 60).length))
    expect(most).toBe(20)
    expect(taken.length).toBeGreaterThanOrEqual(6 * 20)
  })

  test('forgets the keys that were not used for the longest time, when there are too many', () => {
    const { take, drain } = limited(2, 2)
    for (const key of ['a', 'b', 'a', 'c']) drain(key)
    expect(take('c').retryAfterSeconds).toBeDefined()
    expect(take('a').retryAfterSeconds).toBeDefined()
    expect(take('b')).toEqual({ remaining: 1, retryAfterSeconds: undefined })
  })
})

const LIMIT = 8
const LEFT = 'x-ratelimit-remaining'

describe('a service with a limit', () => {
  const cloud = fastCloud({ COB_WARM_BROWSERS: '0', COB_RATE_LIMIT_PER_MINUTE: String(LIMIT) })

  /** A new key; of a deployment on request. */
  async function key(deployment?: string): Promise<string> {
    const made = newKey()
    const hash = createHash('sha256').update(made).digest()
    await cloud.query('insert into api_keys (id, name, hash, masked, deployment_id, project_id) values ($1, $2, $3, $2, $4, $5)', [
      newId(),
      'test',
      hash,
      deployment ?? null,
      deployment === undefined ? null : DEFAULT_PROJECT,
    ])
    return made
  }
  const ask = (token: string, path = '/browsers', init: RequestInit = {}) =>
    fetch(cloud.url + path, { ...init, headers: { authorization: `Bearer ${token}`, ...(init.headers as Record<string, string>) } })
  const drain = async (token: string) => {
    for (let i = 0; i < LIMIT; i++) await (await ask(token)).arrayBuffer()
  }

  test('answers with what is left, then 429 with the time to wait, whatever is asked; another key goes on', async () => {
    const [one, other] = [await key(), await key()]
    for (let left = LIMIT - 1; left >= 0; left--) {
      const response = await ask(one)
      expect([response.status, response.headers.get('x-ratelimit-limit'), response.headers.get(LEFT)]).toEqual([200, String(LIMIT), String(left)])
    }
    for (const [path, init] of [
      ['/browsers', {}],
      ['/browsers', { method: 'HEAD' }],
      ['/browsers', { method: 'POST', body: 'not JSON' }],
      ['/browsers/nonesuch/computer/screenshot', { method: 'POST' }],
      ['/org/projects', { headers: { 'x-kernel-project': 'nonesuch' } }],
      ['/metrics', {}],
    ] as const) {
      const response = await ask(one, path, init)
      expect([path, response.status, response.headers.get('x-ratelimit-limit'), response.headers.get(LEFT)]).toEqual([path, 429, String(LIMIT), '0'])
      expect(response.headers.get('retry-after')).toMatch(/^\d+$/)
      expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0)
      expect(Number(response.headers.get('retry-after'))).toBeLessThanOrEqual(61)
      if ('method' in init && init.method === 'HEAD') continue
      const body = await response.json()
      conforms('ErrorModel', body)
      expect(body).toMatchObject({ code: 'too_many_requests', message: expect.stringContaining('COB_RATE_LIMIT_PER_MINUTE') })
    }
    expect((await ask(other)).headers.get(LEFT)).toBe(String(LIMIT - 1))
    expect(cloud.errors).toEqual([])
  })

  test('counts requests that fail, also for an unknown project, and says what is left on them too', async () => {
    const token = await key()
    expect((await ask(token, '/browsers/nonesuch')).headers.get(LEFT)).toBe(String(LIMIT - 1))
    const unknown = await ask(token, '/browsers', { headers: { 'x-kernel-project': 'nonesuch' } })
    expect([unknown.status, unknown.headers.get(LEFT)]).toEqual([404, String(LIMIT - 2)])
    const invalid = await ask(token, '/browsers?limit=x')
    expect([invalid.status, invalid.headers.get(LEFT)]).toEqual([400, String(LIMIT - 3)])
  })

  test('counts what an app asks by its key', async () => {
    const deployment = newId()
    await cloud.query(
      `insert into deployments (id, scope, state, region, env_keys, project_id) values ($1, 'elsewhere', 'stopped', 'aws.us-east-1a', '[]', $2)`,
      [deployment, DEFAULT_PROJECT],
    )
    const token = await key(deployment)
    await drain(token)
    expect((await ask(token)).status).toBe(429)
  })

  test("counts neither calls by a session's token nor public ones", async () => {
    const token = await key()
    const made = await ask(token, '/browsers', { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' })
    const { base_url, cdp_ws_url } = (await made.json()) as Session
    await drain(token)
    expect((await ask(token)).status).toBe(429)
    const jwt = new URL(cdp_ws_url).searchParams.get('jwt')
    for (let i = 0; i < LIMIT + 2; i++)
      for (const response of [await fetch(`${base_url}/computer/screenshot?jwt=${jwt}`, { method: 'POST' }), await fetch(`${cloud.url}/health`)])
        expect([response.status, response.headers.get(LEFT)]).toEqual([200, null])
  })
})

test('a service without a limit refuses nobody, and sends no such headers', async () => {
  await using cloud = await startFastCloud({ COB_WARM_BROWSERS: '0' })
  for (let i = 0; i < 2 * LIMIT; i++) {
    const response = await cloud.fetch('/browsers')
    expect([response.status, response.headers.get('x-ratelimit-limit'), response.headers.get(LEFT)]).toEqual([200, null, null])
  }
})
