// The live view's addresses over the fake browser: authentication, rights, which parts logs omit, and what ends a view.
import { once } from 'node:events'
import { describe, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { fastCloud, type Session } from '../../../../test/support/fast-cloud.ts'
import { liveLinks } from './links.ts'

const cloud = fastCloud()

/** Requests like a person's browser: without a key. */
const open = (url: string) => fetch(url, { redirect: 'manual' })
const viewOf = (session: Session) => session.browser_live_view_url as string
const watchOf = async (session: Session): Promise<string> => new URL((await open(`${viewOf(session)}?readOnly=true`)).headers.get('location')!, cloud.url).href

/** The rights of a socket, or the status of its refusal. */
async function rights(url: string): Promise<unknown> {
  const socket = new WebSocket(url.replace('http', 'ws'))
  socket.on('error', () => {})
  const hello = once(socket, 'message').then(([data]) => (JSON.parse(String(data)) as { control: boolean }).control)
  const refused = once(socket, 'unexpected-response').then(([, response]) => (response as { statusCode: number }).statusCode)
  const found = await Promise.race([hello, refused])
  hello.catch(() => {})
  refused.catch(() => {})
  socket.terminate()
  return found
}

describe('the live view page', () => {
  test('opens without a key, for headful and headless sessions, at a stable address', async () => {
    for (const headless of [false, true]) {
      const session = await cloud.create({ headless, name: `<b>"bob" & ${headless}` })
      const again = (await (await cloud.fetch(`/browsers/${session.session_id}`)).json()) as Session
      expect(viewOf(again)).toBe(viewOf(session))
      expect(viewOf(session)).toMatch(new RegExp(`^${cloud.url}/browser/live/[\\w-]{57}$`))
      const response = await open(viewOf(session))
      expect([response.status, response.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8'])
      const html = await response.text()
      expect(html).toContain('<title>&#60;b&#62;&#34;bob&#34;')
      expect(html).not.toContain('<b>')
    }
  })

  test('can be framed by any site, loads from this service only, sends no referrer, and is never cached', async () => {
    const { headers } = await open(viewOf(await cloud.create()))
    const policy = headers.get('content-security-policy')!
    expect(policy).toContain("default-src 'none'")
    expect(policy).toContain('frame-ancestors *')
    expect(policy).not.toMatch(/unsafe|https?:/)
    expect([headers.get('x-frame-options'), headers.get('referrer-policy'), headers.get('cache-control')]).toEqual([null, 'no-referrer', 'no-store'])
  })

  test('answers 410 with the reason for an ended session, and 404 for an unknown one', async () => {
    const session = await cloud.create()
    const watch = await watchOf(session)
    await cloud.fetch(`/browsers/${session.session_id}`, { method: 'DELETE' })
    for (const url of [viewOf(session), watch, `${viewOf(session)}?readOnly=true`]) {
      const response = await open(url)
      expect([response.status, await response.text()]).toEqual([410, expect.stringContaining('The owner of this session has ended it.')])
    }
    expect(await (await open(`${viewOf(session)}/state`)).json()).toEqual({
      state: 'ended',
      reason: 'deleted',
      message: 'The owner of this session has ended it.',
    })
    expect(await rights(`${viewOf(session)}/socket`)).toBe(404)
    for (const token of ['x', 'a'.repeat(57), '%00', '..%2f..%2fhealth']) expect((await open(`${cloud.url}/browser/live/${token}`)).status).toBe(404)
  })
})

describe('a live view link', () => {
  test('of the session itself allows control; readOnly redirects to one without control', async () => {
    const session = await cloud.create()
    const watch = await watchOf(session)
    expect(watch).not.toContain(viewOf(session))
    expect(await rights(`${viewOf(session)}/socket`)).toBe(true)
    expect(await rights(`${watch}/socket`)).toBe(false)
    expect((await open(watch)).status).toBe(200)
    expect(await (await open(watch)).text()).not.toContain(new URL(viewOf(session)).pathname)
  })

  test.each(['true', '', '1', 'yes', 'TRUE'])('with readOnly=%s is read-only, on the WebSocket too', async (value) => {
    const session = await cloud.create()
    expect((await open(`${viewOf(session)}?readOnly=${value}`)).status).toBe(303)
    expect(await rights(`${viewOf(session)}/socket?readOnly=${value}`)).toBe(false)
  })

  test('without control stays without it under readOnly=false', async () => {
    const watch = await watchOf(await cloud.create())
    expect(await rights(`${watch}/socket?readOnly=false`)).toBe(false)
  })

  test('cannot be changed to allow control, or to open another session', async () => {
    const [session, other] = [await cloud.create(), await cloud.create()]
    const token = (await watchOf(session)).split('/').at(-1)!
    const id = session.session_id
    const forged = [`${id}c${token.slice(25)}`, other.session_id + token.slice(24), `${token.slice(0, -1)}${token.endsWith('A') ? 'B' : 'A'}`, id, `${id}c`]
    for (const one of forged) {
      expect((await open(`${cloud.url}/browser/live/${one}`)).status).toBe(404)
      expect(await rights(`${cloud.url}/browser/live/${one}/socket`)).toBe(401)
    }
    const jwt = new URL(session.cdp_ws_url).searchParams.get('jwt')!
    expect((await open(`${cloud.url}/browser/live/${jwt}`)).status).toBe(404)
  })

  test('of another service is not valid here', () => {
    const [mine, other] = [liveLinks(Buffer.alloc(32, 1)), liveLinks(Buffer.alloc(32, 2))]
    const session = { id: `a${'b'.repeat(23)}`, lease: 3 }
    const token = mine.path(session, 'control').split('/').at(-1)!
    expect([mine.read(token), other.read(token)]).toEqual([{ ...session, access: 'control' }, undefined])
  })
})

test('viewers are 40 at most, and leave room for the clients of the session', async () => {
  const session = await cloud.create()
  const watch = `${await watchOf(session)}/socket`.replace('http', 'ws')
  const viewers = Array.from({ length: 40 }, () => new WebSocket(watch))
  await Promise.all(viewers.map((viewer) => once(viewer, 'open')))
  expect(await rights(watch)).toBe(429)
  const client = new WebSocket(session.cdp_ws_url)
  await once(client, 'open')
  for (const socket of [client, ...viewers]) socket.terminate()
})
