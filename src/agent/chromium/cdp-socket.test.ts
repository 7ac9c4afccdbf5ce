// CDP over a WebSocket: how the connection begins and ends.
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { WebSocketServer, type WebSocket } from 'ws'
import { CdpGone } from './cdp.ts'
import { connectCdp } from './cdp-socket.ts'

let server: WebSocketServer
const port = (): number => (server.address() as AddressInfo).port
beforeAll(async () => {
  server = new WebSocketServer({ host: '127.0.0.1', port: 0 })
  await once(server, 'listening')
})
afterAll(() => server.close())

async function open(maxPayload?: number) {
  const joined = once(server, 'connection') as Promise<[WebSocket]>
  const connection = await connectCdp(port(), '/devtools', maxPayload)
  const [browser] = await joined
  const commands: string[] = []
  browser.on('message', (data: Buffer) => void commands.push(data.toString()))
  return { connection, browser, commands }
}

test('commands and answers are carried; the end of the browser ends the connection', async () => {
  const { connection, browser, commands } = await open()
  const creating = connection.send('Target.createTarget', { url: 'a' })
  await expect.poll(() => commands).toEqual([JSON.stringify({ id: 1, method: 'Target.createTarget', params: { url: 'a' } })])
  browser.send(JSON.stringify({ id: 1, result: { targetId: 'A' } }))
  expect(await creating).toEqual({ targetId: 'A' })
  const pending = connection.send('Browser.getVersion', {})
  browser.terminate()
  await expect(pending).rejects.toBeInstanceOf(CdpGone)
  expect(connection.ended.aborted).toBe(true)
})

test('closing the connection ends it on both sides', async () => {
  const { connection, browser } = await open()
  const closed = once(browser, 'close')
  const pending = connection.send('Browser.getVersion', {})
  connection.close()
  await expect(pending).rejects.toBeInstanceOf(CdpGone)
  await closed
})

test('a message above the limit ends the connection', async () => {
  const { connection, browser } = await open(1_000)
  const pending = connection.send('Target.createTarget', { url: 'a' })
  browser.send(JSON.stringify({ id: 1, result: { targetId: 'x'.repeat(1_000) } }))
  await expect(pending).rejects.toMatchObject({ message: 'the browser closed the connection', cause: { code: 'WS_ERR_UNSUPPORTED_MESSAGE_LENGTH' } })
})

test('a browser that does not accept is an error', async () => {
  const { connection } = await open()
  connection.close()
  const taken = port()
  await new Promise((resolve) => server.close(resolve))
  await expect(connectCdp(taken, '/devtools')).rejects.toMatchObject({ code: 'ECONNREFUSED' })
})
