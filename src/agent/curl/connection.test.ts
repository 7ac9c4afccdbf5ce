// The CDP connection against a fake browser: no command waits for a page that is closed.
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { WebSocketServer, type WebSocket } from 'ws'
import { connectCdp, NO_LIMIT_MS } from './connection.ts'

let server: WebSocketServer
beforeAll(async () => {
  server = new WebSocketServer({ host: '127.0.0.1', port: 0 })
  // Answers only the commands that open sessions.
  server.on('connection', (socket) =>
    socket.on('message', (data: Buffer) => {
      const { id, method, params } = JSON.parse(data.toString()) as { id: number; method: string; params: { targetId: string } }
      if (method === 'Target.attachToTarget') socket.send(JSON.stringify({ id, result: { sessionId: `s-${params.targetId}` } }))
    }),
  )
  await once(server, 'listening')
})
afterAll(() => server.close())

async function open() {
  const joined = once(server, 'connection') as Promise<[WebSocket]>
  const connection = await connectCdp((server.address() as AddressInfo).port, '/')
  return { connection, browser: (await joined)[0] }
}

test('a command that is pending when its page closes is rejected, and commands to other pages are not', async () => {
  const { connection, browser } = await open()
  const [gone, stays, left] = [await connection.attach('a'), await connection.attach('b'), await connection.attach('c')]
  const ask = (session: string) => connection.send('IO.read', {}, session, NO_LIMIT_MS)
  const [first, second, third] = [ask(gone), ask(stays), ask(left)]
  let answered = false
  second.catch(() => {}).finally(() => (answered = true))
  browser.send(JSON.stringify({ method: 'Target.detachedFromTarget', params: { sessionId: gone, targetId: 'a' } }))
  await expect(first).rejects.toThrow('the hidden page was closed')
  connection.forget(left)
  await expect(third).rejects.toThrow('the hidden page was closed')
  expect([gone, stays, left].map((session) => connection.has(session))).toEqual([false, true, false])
  expect(answered).toBe(false)
  browser.close()
  await expect(second).rejects.toThrow('the browser closed the connection')
  await connection.ended
  expect([connection.isOpen, connection.has(stays)]).toEqual([false, false])
  await expect(connection.send('IO.read')).rejects.toThrow('the browser closed the connection')
})
