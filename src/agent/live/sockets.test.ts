// The WebSockets of viewers. Some viewers send invalid frames.
import { once } from 'node:events'
import { createServer } from 'node:http'
import { connect, type AddressInfo } from 'node:net'
import { expect, test } from 'vitest'
import { silentLog } from '../../base/log.ts'
import { LIVE_SOCKETS } from './contract.ts'
import { liveSockets } from './sockets.ts'

const HANDSHAKE = [
  'GET / HTTP/1.1',
  'Host: x',
  'Connection: Upgrade',
  'Upgrade: websocket',
  'Sec-WebSocket-Version: 13',
  'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==',
]

test('a viewer that is refused and then sends an invalid frame causes no uncaught exception', async () => {
  const handlers = liveSockets({ join: async (client) => client.close(1013, 'too many') }, silentLog)
  const signal = new AbortController().signal
  const server = createServer().on('upgrade', (request, socket, head) => void handlers[LIVE_SOCKETS.watch]({ request, socket, head, signal } as never))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const uncaught: unknown[] = []
  const onUncaught = (error: unknown) => uncaught.push(error)
  process.on('uncaughtException', onUncaught)
  for (let round = 0; round < 5; round++) {
    const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
    socket.on('error', () => {})
    socket.write(`${HANDSHAKE.join('\r\n')}\r\n\r\n`)
    await once(socket, 'data')
    socket.write(Buffer.from([0xff, 0x80, 0, 0, 0, 0]))
    await once(socket, 'close')
  }
  process.off('uncaughtException', onUncaught)
  server.close()
  expect(uncaught).toEqual([])
})
