// A session's WebSockets over the fake browser: authentication, data in both directions, and the close reason that clients get.
import { once } from 'node:events'
import { describe, expect, test } from 'vitest'
import { WebSocket, type ClientOptions } from 'ws'
import { fastCloud, type Session } from '../../../../test/support/fast-cloud.ts'
import { session as agent } from '../../../agent/session/contract.ts'
import { until } from '../../../base/wait.ts'
import { call } from '../../../http/client.ts'
import type { Endpoint } from '../../../http/endpoint.ts'

const CLOSE_MS = 10_000

const cloud = fastCloud()

async function connect(url: string, options: ClientOptions = {}): Promise<WebSocket> {
  const socket = new WebSocket(url, options)
  await once(socket, 'open')
  return socket
}

/** The HTTP status and the error code with which a handshake is refused. */
async function refusal(url: string): Promise<{ status: number | undefined; code: string; id: string | undefined }> {
  const socket = new WebSocket(url)
  socket.on('error', () => {})
  const [, response] = (await once(socket, 'unexpected-response')) as [unknown, import('node:http').IncomingMessage]
  const chunks: Buffer[] = []
  for await (const chunk of response as AsyncIterable<Buffer>) chunks.push(chunk)
  return {
    status: response.statusCode,
    code: (JSON.parse(Buffer.concat(chunks).toString()) as { code: string }).code,
    id: response.headers['x-request-id'] as string | undefined,
  }
}

async function ask(socket: WebSocket, id: number): Promise<unknown> {
  const answer = once(socket, 'message')
  socket.send(JSON.stringify({ id, method: 'Browser.getVersion' }))
  return JSON.parse(String((await answer)[0] as Buffer))
}

const closed = async (socket: WebSocket): Promise<{ code: number; reason: unknown }> => {
  const [code, reason] = (await once(socket, 'close')) as [number, Buffer]
  return { code, reason: JSON.parse(reason.toString()) }
}
const end = (session: Session): Promise<Response> => cloud.fetch(`/browsers/${session.session_id}`, { method: 'DELETE' })
const openSockets = async (): Promise<number> => Number(/^cob_websockets (\d+)/m.exec(await (await cloud.fetch('/metrics')).text())![1])

describe('cdp_ws_url', () => {
  test('connects to the browser, without a key, for any number of clients up to the limit', async () => {
    const session = await cloud.create()
    const clients = await Promise.all(Array.from({ length: 5 }, () => connect(session.cdp_ws_url)))
    expect(await Promise.all(clients.map((client, index) => ask(client, index)))).toEqual(clients.map((_, index) => ({ id: index, result: {} })))
    clients[0]!.terminate()
    clients[1]!.close()
    await once(clients[1]!, 'close')
    expect(await ask(clients[2]!, 7)).toEqual({ id: 7, result: {} })
    for (const client of clients) client.terminate()
    expect((await cloud.fetch(`/browsers/${session.session_id}`)).status).toBe(200)
  })

  test('answers 401 for the token of another session, a wrong one and none', async () => {
    const [mine, other] = [await cloud.create(), await cloud.create()]
    const token = new URL(mine.cdp_ws_url).searchParams.get('jwt')!
    for (const address of [other.cdp_ws_url, String(other.webdriver_ws_url)])
      for (const query of [`?jwt=${token}`, '?jwt=x', '', `?jwt=${cloud.key}`])
        expect(await refusal(address.split('?')[0]! + query)).toEqual({ status: 401, code: 'unauthorized', id: expect.any(String) as string })
  })

  test('answers 404 after the session has ended', async () => {
    const session = await cloud.create()
    await end(session)
    for (const address of [session.cdp_ws_url, String(session.webdriver_ws_url)])
      expect(await refusal(address)).toMatchObject({ status: 404, code: 'not_found' })
  })

  test('carries a message of 16 MiB unbroken, and many small ones in order', async () => {
    const socket = await connect((await cloud.create()).cdp_ws_url)
    const answers: number[] = []
    socket.on('message', (data) => answers.push((JSON.parse(String(data as Buffer)) as { id: number }).id))
    socket.send(JSON.stringify({ id: 0, params: 'x'.repeat(16 * 1024 * 1024) }))
    for (let id = 1; id <= 500; id++) socket.send(JSON.stringify({ id }))
    await until('every answer', CLOSE_MS, () => answers.length === 501)
    expect(answers).toEqual(Array.from({ length: 501 }, (_, id) => id))
    socket.terminate()
  })
})

describe('the clients of a session', () => {
  test('are all told that it was deleted, with a close code and a JSON reason', async () => {
    const session = await cloud.create()
    const clients = await Promise.all([session.cdp_ws_url, session.cdp_ws_url, String(session.webdriver_ws_url)].map((address) => connect(address)))
    const endings = Promise.all(clients.map(closed))
    expect((await end(session)).status).toBe(204)
    expect(await endings).toEqual(clients.map(() => ({ code: 4001, reason: { reason: 'deleted' } })))
  })

  test('are told the reason in its row when the agent ends them before any notice comes', async () => {
    const { session_id: id, cdp_ws_url: url } = await cloud.create()
    const [row] = await cloud.query<{ endpoint: Endpoint }>('select endpoint from browsers where id = $1', [id])
    const dismissed = async (socket: WebSocket) => {
      const ending = closed(socket)
      await call(row!.endpoint, agent.dismissClients, {}, { signal: AbortSignal.timeout(CLOSE_MS) })
      return ending
    }
    expect(await dismissed(await connect(url))).toEqual({ code: 4003, reason: { reason: 'crashed' } })
    const socket = await connect(url)
    await cloud.query(`update browsers set state = 'stopping', end_reason = 'timeout' where id = $1`, [id])
    expect(await dismissed(socket)).toEqual({ code: 4002, reason: { reason: 'timeout' } })
    await cloud.query(`update browsers set state = 'running', end_reason = null where id = $1`, [id])
    expect((await cloud.fetch(`/browsers/${id}`, { method: 'DELETE' })).status).toBe(204)
  })

  test('do not delay its end, even if one of them reads nothing', async () => {
    const session = await cloud.create()
    const deaf = await connect(session.cdp_ws_url)
    deaf.pause()
    for (let id = 0; id < 100; id++) deaf.send(JSON.stringify({ id, params: 'x'.repeat(10_000) }))
    expect((await end(session)).status).toBe(204)
    deaf.terminate()
  })

  test('are limited to 64: the next gets 429, other sessions are not affected, and a disconnect makes room', async () => {
    const [session, other] = [await cloud.create(), await cloud.create()]
    const clients = await Promise.all(Array.from({ length: 64 }, () => connect(session.cdp_ws_url)))
    expect(await refusal(session.cdp_ws_url)).toMatchObject({ status: 429, code: 'too_many_requests' })
    expect(await ask(await connect(other.cdp_ws_url), 1)).toEqual({ id: 1, result: {} })
    clients.pop()!.terminate()
    const next = await until('room for another', CLOSE_MS, () => connect(session.cdp_ws_url).catch(() => undefined))
    expect(await ask(next, 2)).toEqual({ id: 2, result: {} })
    await Promise.all([end(session), end(other)])
  })

  test('that have disconnected no longer count', async () => {
    const session = await cloud.create()
    await until('those of earlier tests to be counted out', CLOSE_MS, async () => (await openSockets()) === 0)
    const clients = await Promise.all(Array.from({ length: 3 }, () => connect(session.cdp_ws_url)))
    expect(await openSockets()).toBe(3)
    for (const client of clients) client.terminate()
    await until('the sockets to be counted out', CLOSE_MS, async () => (await openSockets()) === 0)
  })
})

test.each(['/', '/browsers', '/browsers/x/nothing', '/health', '/browsers/%00/cdp', '/browsers/%ff/cdp'])(
  'a WebSocket to %s, which does not exist, is refused in the common shape of errors',
  async (path) => {
    const { status, code, id } = await refusal(cloud.url.replace('http', 'ws') + path)
    expect([400, 401, 404]).toContain(status)
    expect([code, id]).toEqual([expect.any(String), expect.stringMatching(/^[a-z][a-z0-9]{23}$/)])
  },
)
