// Session tokens: a token opens the calls of its own session only, and none after the session has ended.
import { SignJWT } from 'jose'
import { readFileSync } from 'node:fs'
import { beforeAll, describe, expect, test } from 'vitest'
import { conforms } from '../../../../test/support/contract.ts'
import { fastCloud, type Session } from '../../../../test/support/fast-cloud.ts'
import { contracts } from '../../modules.ts'
import { sessionTokens } from './tokens.ts'

let mine: Session
let other: Session
const cloud = fastCloud()
beforeAll(async () => {
  mine = await cloud.create()
  other = await cloud.create()
})

const tokenOf = (session: Session): string => new URL(session.cdp_ws_url).searchParams.get('jwt')!
/** A screenshot of a session, requested without a key. */
const picture = (session: Session, query: string, headers: Record<string, string> = {}): Promise<Response> =>
  fetch(`${session.base_url}/computer/screenshot${query}`, { method: 'POST', headers })

/** The payload of a signed token. */
async function forged(signer: (jwt: SignJWT) => Promise<string>): Promise<string> {
  return signer(
    new SignJWT({ session: { id: mine.session_id, fqdn: 'x' } }).setProtectedHeader({ alg: 'HS256' }).setAudience('cob-session').setSubject(mine.session_id),
  )
}

describe("the token in a session's URLs", () => {
  test('allows calls below its base_url without a key', async () => {
    const response = await picture(mine, `?jwt=${tokenOf(mine)}`)
    expect([response.status, response.headers.get('content-type')]).toEqual([200, 'image/png'])
  })

  test('is the same each time the session is read', async () => {
    const again = (await (await cloud.fetch(`/browsers/${mine.session_id}`)).json()) as Session
    expect(tokenOf(again)).toBe(tokenOf(mine))
  })

  test('allows calls under the name of its session, and not under other names', async () => {
    const [named, namesake] = [await cloud.create({ name: 'By Name' }), await cloud.create({ name: 'another' })]
    const shot = (name: string, session: Session) => fetch(`${cloud.url}/browsers/${name}/computer/screenshot?jwt=${tokenOf(session)}`, { method: 'POST' })
    expect((await shot('By%20Name', named)).status).toBe(200)
    expect((await shot('another', named)).status).toBe(401)
    expect((await shot('nothing', named)).status).toBe(401)
    for (const { session_id } of [named, namesake]) await cloud.fetch(`/browsers/${session_id}`, { method: 'DELETE' })
    expect((await shot('By%20Name', named)).status).toBe(401)
  })

  test('allows below base_url what a key allows below /browsers/{id}, including replays, and the telemetry', async () => {
    const below = [`${cloud.url}/browsers/${mine.session_id}`, mine.base_url]
    for (const base of below) {
      const get = (path: string, token = tokenOf(mine)) => fetch(`${base}${path}?jwt=${token}`)
      expect((await fetch(`${base}/computer/screenshot?jwt=${tokenOf(mine)}`, { method: 'POST' })).status).toBe(200)
      expect((await get('/fs/list_files')).status).toBe(400) // its path is missing: the request has reached the agent
      expect([(await get('/replays')).status, (await get('/replays', tokenOf(other))).status]).toEqual([200, 401])
      expect((await fetch(`${base}/replays`)).status).toBe(401)
      const telemetry = await get('/telemetry/stream')
      expect([telemetry.status, telemetry.headers.get('content-type')]).toEqual([200, 'text/event-stream'])
      await telemetry.body!.cancel()
    }
  })

  test('belongs to base_url only: no other path of the API starts with it, because clients send no key to such URLs', async () => {
    const [path] = [new URL(mine.base_url).pathname]
    expect(contracts.flatMap((contract) => Object.values(contract)).filter((call) => call.path.startsWith(path.replace(mine.session_id, '')))).toEqual([])
    expect(path).not.toMatch(/\/browsers|\/$/)
    expect((await fetch(mine.base_url + '?jwt=' + tokenOf(mine))).status).toBe(404)
  })

  test('does not allow calls of another session', async () => {
    const response = await picture(other, `?jwt=${tokenOf(mine)}`)
    const body = await response.json()
    conforms('ErrorModel', body)
    expect([response.status, (body as { code: string }).code]).toEqual([401, 'unauthorized'])
  })

  test.each([
    ['GET', '/browsers'],
    ['POST', '/browsers'],
    ['GET', '/browsers/{id}'],
    ['PATCH', '/browsers/{id}'],
    ['DELETE', '/browsers/{id}'],
    ['GET', '/metrics'],
    ['GET', '/deployments/abc'],
  ])('does not allow %s %s, neither in the URL nor as a key', async (method, path) => {
    const url = cloud.url + path.replace('{id}', mine.session_id)
    expect((await fetch(`${url}?jwt=${tokenOf(mine)}`, { method })).status).toBe(401)
    expect((await fetch(url, { method, headers: { authorization: `Bearer ${tokenOf(mine)}` } })).status).toBe(401)
  })

  test('allows nothing after the session has ended', async () => {
    const session = await cloud.create()
    expect((await picture(session, `?jwt=${tokenOf(session)}`)).status).toBe(200)
    await cloud.fetch(`/browsers/${session.session_id}`, { method: 'DELETE' })
    expect((await picture(session, `?jwt=${tokenOf(session)}`)).status).toBe(404)
  })

  test("opens no other session then, though that one's name is its id in capitals", async () => {
    const [session, other] = [await cloud.create(), await cloud.create()]
    await cloud.fetch(`/browsers/${session.session_id}`, { method: 'DELETE' })
    await cloud.query('update browsers set name = upper($1) where id = $2', [session.session_id, other.session_id])
    expect((await picture(session, `?jwt=${tokenOf(session)}`)).status).toBe(404)
    expect((await cloud.fetch(`/browsers/${session.session_id}`, { method: 'DELETE' })).status).toBe(404)
    expect((await cloud.fetch(`/browsers/${other.session_id}`)).status).toBe(200)
  })
})

describe('an invalid token', () => {
  test('is refused, whatever it contains', async () => {
    const [header, payload, signature] = tokenOf(mine).split('.') as [string, string, string]
    const none = Buffer.from('{"alg":"none"}').toString('base64url')
    const guesses = [
      '',
      'x',
      'a.b.c',
      `${none}.${payload}.`,
      `${none}.${payload}.${signature}`,
      `${header}.${payload}.`,
      `${header}.${payload}.${signature.startsWith('A') ? 'B' : 'A'}${signature.slice(1)}`,
      `${header}.${Buffer.from('{}').toString('base64url')}.${signature}`,
      cloud.key,
    ]
    for (const guess of guesses) expect((await picture(mine, `?jwt=${encodeURIComponent(guess)}`)).status).toBe(401)
  })

  test('is refused if another key signed it', async () => {
    const token = await forged((jwt) => jwt.sign(new Uint8Array(32)))
    expect((await picture(mine, `?jwt=${token}`)).status).toBe(401)
    // Tokens have their own key: a token signed with the service's secret is refused.
    const secret = Buffer.from(readFileSync(cloud.paths.secretKey, 'utf8').trim(), 'hex')
    expect((await picture(mine, `?jwt=${await forged((jwt) => jwt.sign(secret))}`)).status).toBe(401)
  })

  test('is refused if it was made for another purpose', async () => {
    const nobody = { nameOf: async () => undefined, leaseOf: async () => undefined }
    const tokens = sessionTokens(Buffer.from(readFileSync(cloud.paths.secretKey, 'utf8').trim(), 'hex'))
    expect(await tokens.sign({ id: mine.session_id, lease: 0 }, '127.0.0.1')).toBe(tokenOf(mine))
    await expect(tokens.check(tokenOf(mine), other.session_id, nobody)).rejects.toMatchObject({ status: 401 })
    for (const wrong of [undefined, null, 1, [tokenOf(mine)], { 0: tokenOf(mine) }])
      await expect(tokens.check(wrong, mine.session_id, nobody)).rejects.toMatchObject({ status: 401 })
  })

  test('is refused if the URL contains two tokens', async () => {
    expect((await picture(mine, `?jwt=${tokenOf(mine)}&jwt=${tokenOf(mine)}`)).status).toBe(401)
  })

  test('is refused even with a valid key', async () => {
    expect((await picture(mine, '?jwt=x', { authorization: `Bearer ${cloud.key}` })).status).toBe(401)
  })
})

test('calls of a session without key and token answer 401 and say how to authenticate', async () => {
  const response = await picture(mine, '')
  expect([response.status, response.headers.get('www-authenticate')]).toEqual([401, 'Bearer'])
})

test('a key allows the calls of every session', async () => {
  for (const session of [mine, other]) expect((await picture(session, '', { authorization: `Bearer ${cloud.key}` })).status).toBe(200)
})
