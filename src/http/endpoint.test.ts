// Complete, unread answers whose caller leaves: they do not end the process, and the next call works.
import { once } from 'node:events'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { rmSync } from 'node:fs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { scratchDir } from '../../test/support/scratch.ts'
import { sleep } from '../base/wait.ts'
import { fetchFrom, type Endpoint } from './endpoint.ts'

/** The answer is there by then. */
const COME_MS = 50
const BODY = 'x'.repeat(4096)

const dir = scratchDir('cob-endpoint-')
const endpoint: Endpoint = { socketPath: join(dir, 'agent.sock') }
let asked = 0
const server = createServer((request, response) => {
  asked++
  request.resume()
  response.write(BODY)
  response.end(BODY)
})
const uncaught: unknown[] = []
const hear = (error: unknown) => void uncaught.push(error)
beforeAll(async () => {
  server.listen(join(dir, 'agent.sock'))
  await once(server, 'listening')
  process.on('uncaughtException', hear)
})
afterAll(async () => {
  process.off('uncaughtException', hear)
  server.closeAllConnections()
  server.close()
  await once(server, 'close')
  rmSync(dir, { recursive: true, force: true })
})

async function works(): Promise<void> {
  const response = await fetchFrom(endpoint, { method: 'GET', path: '/' }, AbortSignal.timeout(5_000))
  let length = 0
  for await (const chunk of response as AsyncIterable<Buffer>) length += chunk.length
  expect(length).toBe(2 * BODY.length)
}

test.each(['before its answer is read', 'after a part of it was read'])('a caller leaves %s', async (when) => {
  const leave = new AbortController()
  const response = await fetchFrom(endpoint, { method: 'GET', path: '/' }, leave.signal)
  await sleep(COME_MS)
  const reader = response[Symbol.asyncIterator]()
  if (when.startsWith('after')) await reader.next()
  leave.abort(new Error('the caller has left'))
  await sleep(COME_MS)
  await works()
  expect(uncaught).toEqual([])
})

test('the body of a request breaks off after its answer has come', async () => {
  const body = new Readable({ read() {} })
  body.push('a beginning')
  const before = asked
  const response = await fetchFrom(endpoint, { method: 'POST', path: '/', body }, AbortSignal.timeout(5_000))
  expect([response.statusCode, asked]).toEqual([200, before + 1])
  await sleep(COME_MS)
  body.destroy(new Error('the caller has left'))
  await sleep(COME_MS)
  await works()
  expect(uncaught).toEqual([])
})
