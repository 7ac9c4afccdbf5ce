// Connections without a credential, over the fake browser: a flood of them never closes a connection that has sent a credential.
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { describe, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { fastCloud } from '../../test/support/fast-cloud.ts'
import { until } from './wait.ts'
import { networkOf } from './anonymous.ts'

const LIMIT = 20
const WAIT_MS = 10_000

const cloud = fastCloud({ COB_MAX_ANONYMOUS_CONNECTIONS: String(LIMIT) })

async function open(): Promise<Socket> {
  const socket = connect(Number(new URL(cloud.url).port), '127.0.0.1')
  socket.on('error', () => {}).resume()
  await once(socket, 'connect')
  return socket
}
const openMany = (count: number): Promise<Socket[]> => Promise.all(Array.from({ length: count }, open))
const alive = (sockets: Socket[]): Socket[] => sockets.filter((socket) => !socket.closed)

/** Sends a request and resolves with the first line of its answer. */
async function ask(socket: Socket, key: string): Promise<string> {
  const answer = once(socket, 'data')
  socket.write(`GET /browsers HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${key}\r\n\r\n`)
  return String((await answer)[0]).split('\r\n')[0]!
}

describe('connections without a valid key', () => {
  test('are limited: the oldest idle ones are closed, and a new caller is served', async () => {
    const flood = await openMany(3 * LIMIT)
    await until('the oldest to be closed', WAIT_MS, () => alive(flood).length <= LIMIT)
    const caller = await open()
    expect(await ask(caller, cloud.key)).toBe('HTTP/1.1 200 OK')
    for (const socket of [...flood, caller]) socket.destroy()
  })

  test('take no place from connections with a key, or from WebSockets', async () => {
    const session = await cloud.create()
    const client = new WebSocket(session.cdp_ws_url)
    await once(client, 'open')
    const callers = await openMany(5)
    for (const caller of callers) expect(await ask(caller, cloud.key)).toBe('HTTP/1.1 200 OK')
    const wrong = await open()
    expect(await ask(wrong, 'cob_not-a-key-of-this-service')).toBe('HTTP/1.1 401 Unauthorized')
    const flood = await openMany(3 * LIMIT)
    await until('the one with the wrong key to be closed', WAIT_MS, () => wrong.closed)
    for (const caller of callers) expect(await ask(caller, cloud.key)).toBe('HTTP/1.1 200 OK')
    expect(client.readyState).toBe(WebSocket.OPEN)
    client.terminate()
    for (const socket of [...flood, ...callers]) socket.destroy()
  })
})

test.each([
  ['127.0.0.1', '127.0.0.1'],
  ['::ffff:10.1.2.3', '10.1.2.3'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2'],
  ['2001:db8::1', '2001:db8:0:0'],
  ['::1', '0:0:0:0'],
  ['fe80::1:2%eth0', 'fe80:0:0:0'],
  ['2001:0db8:0001::', '2001:db8:1:0'],
])('%s counts as %s', (address, network) => expect(networkOf(address)).toBe(network))
