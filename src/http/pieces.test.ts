// Bodies in very many pieces, from servers and to servers: their number is limited while they wait, and they are complete when they are read.
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
    response.once('readable', () => {}) // requests bytes, and reads none
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

/** A source that sends pieces of `size` bytes without end, many at once. */
const flooding = (size: number) =>
  listen(
    createTcpServer((socket) => {
      socket.on('error', () => {})
      const more = () => {
        while (!socket.destroyed && socket.write(`${size.toString(16)}\r\n${'x'.repeat(size)}\r\n`.repeat(10_000)));
        socket.once('drain', () => setImmediate(more))
      }
      socket.once('data', () => {
        socket.write('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n')
        more()
      })
    }),
  )

describe('very many tiny pieces', () => {
  test('that are there at once are read over many turns of the event loop, so that others are served between them', async () => {
    const leave = new AbortController()
    const response = await fetchFrom(await flooding(80), { method: 'GET', path: '/' }, leave.signal)
    let inTurn = 0
    let most = 0
    let pieces = 0
    response.on('error', () => {}).on('data', () => (pieces++, inTurn++))
    while (pieces < 100_000) {
      await new Promise((resolve) => setImmediate(resolve))
      most = Math.max(most, inTurn)
      inTurn = 0
    }
    leave.abort(new Error('the reader has left'))
    // Initially the pieces that waited for the reader; and at any time those that one read of 64 KiB adds.
    expect(most).toBeLessThan(1_024 + 65_536 / 86)
  })

  test('in many answers at once are read no faster than a part of a core takes, and what comes after them is read', async () => {
    const flood = await flooding(1)
    const leave = new AbortController()
    const began = performance.now()
    let pieces = 0
    for (let count = 0; count < 10; count++) {
      const response = await fetchFrom(flood, { method: 'GET', path: '/' }, leave.signal)
      response.on('error', () => {}).on('data', () => pieces++)
    }
    await sleep(2_000)
    leave.abort(new Error('the reader has left'))
    const seconds = (performance.now() - began) / 1000
    // The burst, the rate per second, and the pieces that one read of each connection adds. Together the answers contain some millions.
    expect(pieces).toBeLessThan(200_000 + seconds * 100_000 + 10 * 20_000)
    // The budget is used up: each of these answers pauses for a while.
    const ports = new Set<number>()
    const kept = await listen(
      createServer((request, response) => {
        ports.add(request.socket.remotePort!)
        for (let at = 0; at < 2_000; at++) response.write('x')
        response.end()
      }),
    )
    for (let time = 0; time < 3; time++) {
      const response = await fetchFrom(kept, { method: 'GET', path: '/' }, signal)
      expect(await buffer(response)).toHaveLength(2_000)
    }
    expect(ports.size).toBe(1)
  })
})
