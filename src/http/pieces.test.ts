// Bodies in very many pieces, from servers and to servers: limited when they wait, complete when they are read.
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import { connect, createServer as createTcpServer, type AddressInfo, type Server as TcpServer } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { afterEach, describe, expect, test } from 'vitest'
import { sleep, until } from '../base/wait.ts'
import { fetchFrom } from './endpoint.ts'
import { limitPieces } from '../base/pieces.ts'

const signal = new AbortController().signal
const servers: (Server | TcpServer)[] = []
afterEach(() => {
  for (const server of servers.splice(0)) server.close()
})

async function listen<S extends Server | TcpServer>(server: S): Promise<{ host: string; port: number }> {
  servers.push(server)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return { host: '127.0.0.1', port: (server.address() as AddressInfo).port }
}

/** A server that answers with chunks of these bytes. */
const answering = (size: number, count: number) =>
  listen(
    createTcpServer((socket) => {
      socket.on('error', () => {})
      socket.once('data', () => {
        socket.write('HTTP/1.1 200 OK\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n')
        socket.end(`${size.toString(16)}\r\n${'x'.repeat(size)}\r\n`.repeat(count) + '0\r\n\r\n')
      })
    }),
  )

describe('an answer', () => {
  test('in single bytes waits for its reader at the other end, and not in memory', async () => {
    const response = await fetchFrom(await answering(1, 100_000), { method: 'GET', path: '/' }, signal)
    response.once('readable', () => {}) // asks for bytes, and takes none
    await until('bytes', 10_000, () => response.readableLength > 1_000)
    await sleep(300)
    expect(response.readableLength).toBeLessThan(15_000)
    expect(await buffer(response)).toHaveLength(100_000)
  })

  test.each([
    ['in single bytes, if it is read at once', 1, 50_000, 0],
    ['in pieces as those of a zip of tiny files, for a slow reader', 16, 40_000, 5],
    ['in lines, for a slow reader', 80, 20_000, 5],
    ['in large pieces, for a slow reader', 60_000, 200, 2],
  ])('arrives complete %s', async (_, size, count, pauseMs) => {
    const response = await fetchFrom(await answering(size, count), { method: 'GET', path: '/' }, signal)
    let length = 0
    if (pauseMs > 0) response.once('readable', () => {})
    if (pauseMs > 0) await sleep(100)
    for await (const chunk of response as AsyncIterable<Buffer>) {
      length += chunk.length
      if (pauseMs > 0) await sleep(pauseMs)
    }
    expect(length).toBe(size * count)
  })
})

test('a request in single bytes that is read late arrives complete, and does not wait in memory', async () => {
  const late = Promise.withResolvers<number>()
  const slow = await listen(
    createServer((request, response) => {
      limitPieces(request)
      request.once('readable', () => {})
      void (async () => {
        await until('bytes', 10_000, () => request.readableLength > 1_000)
        await sleep(200)
        const waiting = request.readableLength
        expect((await buffer(request)).length).toBe(60_000)
        response.end()
        late.resolve(waiting)
      })()
    }),
  )
  const socket = connect(slow.port, slow.host)
  socket.on('error', () => {})
  socket.write('POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n' + '1\r\nx\r\n'.repeat(60_000) + '0\r\n\r\n')
  expect(await late.promise).toBeLessThan(20_000)
  socket.destroy()
})
