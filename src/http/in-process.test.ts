// Requests to a server of the same process behave like others: they are parsed, answered, and ended from both sides.
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'
import { afterEach, expect, test } from 'vitest'
import { requestInProcess } from './in-process.ts'

let server: Server
afterEach(() => server.close())

const serve = (answer: (request: IncomingMessage, response: ServerResponse) => void): Server => (server = createServer(answer))
const never = new AbortController().signal
const GET = { method: 'GET', path: '/', headers: { host: 'here' }, remoteAddress: '192.0.2.7' }

test('the server sees the method, the path, the headers as bytes, the body with its length, and the address', async () => {
  serve((request, response) => {
    void text(request).then((body) => {
      const { method, url, headers, socket } = request
      response.end(
        JSON.stringify({
          method,
          url,
          name: Buffer.from(headers['x-name'] as string, 'latin1').toString(),
          length: headers['content-length'],
          body,
          from: socket.remoteAddress,
        }),
      )
    })
  })
  for (const method of ['POST', 'DELETE', 'PATCH']) {
    const headers = { host: 'here', 'x-name': Buffer.from('日本').toString('latin1') }
    const response = await requestInProcess(server, { method, path: '/a?b=c', headers, body: 'ü', remoteAddress: '192.0.2.7' }, never)
    expect(JSON.parse(await text(response))).toEqual({ method, url: '/a?b=c', name: '日本', length: '2', body: 'ü', from: '192.0.2.7' })
  }
})

test('a large answer waits for its reader', async () => {
  const PIECES = 1000
  let sent = 0
  serve((_request, response) => {
    const write = () => {
      while (sent < PIECES) {
        sent++
        if (!response.write(Buffer.alloc(64 * 1024))) return void response.once('drain', write)
      }
      response.end()
    }
    write()
  })
  const response = await requestInProcess(server, GET, never)
  await new Promise((resolve) => setTimeout(resolve, 100))
  expect(sent).toBeLessThan(PIECES / 10)
  let length = 0
  for await (const chunk of response as AsyncIterable<Buffer>) length += chunk.length
  expect(length).toBe(PIECES * 64 * 1024)
})

test('aborting ends the request for the server, before and after the answer has begun', async () => {
  let isAnswered = false
  const closed: Promise<unknown>[] = []
  serve((_request, response) => {
    closed.push(once(response, 'close'))
    if (isAnswered) response.write('begun')
  })
  const before = new AbortController()
  const asked = requestInProcess(server, GET, before.signal)
  setTimeout(() => before.abort(new Error('enough')), 20)
  await expect(asked).rejects.toThrow('enough')
  isAnswered = true
  const after = new AbortController()
  const response = await requestInProcess(server, GET, after.signal)
  after.abort(new Error('enough'))
  await expect(text(response)).rejects.toThrow()
  await Promise.all(closed)
  expect(closed).toHaveLength(2)
  await expect(requestInProcess(server, GET, AbortSignal.abort(new Error('before')))).rejects.toThrow('before')
})

test('a server that ends the connection ends the request', async () => {
  serve((request) => request.socket.destroy())
  await expect(requestInProcess(server, GET, never)).rejects.toThrow()
})

test('timeouts of answers can be set, as on a socket', async () => {
  serve((_request, response) => {
    response.setTimeout(1000, () => {})
    response.end('fine')
  })
  expect(await text(await requestInProcess(server, GET, never))).toBe('fine')
})
