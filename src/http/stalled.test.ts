// Callers that stop reading, or vanish, are not waited for without end.
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { connect, type AddressInfo, type Socket } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import * as z from 'zod'
import { silentLog } from '../base/log.ts'
import { sleep, until } from '../base/wait.ts'
import { mount } from './mount.ts'
import { route, text } from './route.ts'
import { makeServer } from './server.ts'

const STALLED_MS = 800
const BODY_MS = 500
/** More than the buffers of both sides hold. */
const LARGE = 32 * 1024 * 1024
const NOTICE_MS = 10_000

const common = { method: 'GET', group: 'Test', summary: '', access: 'public' } as const
const contract = {
  large: route({ ...common, path: '/large', id: 'large', reply: text('text/plain') }),
  slow: route({ ...common, path: '/slow', id: 'slow', reply: text('text/plain') }),
  asks: route({ ...common, method: 'POST', path: '/asks', id: 'asks', body: z.strictObject({}), reply: text('text/plain') }),
  hurries: route({ ...common, method: 'POST', path: '/hurries', id: 'hurries', body: z.strictObject({}), deadlineMs: 200, reply: text('text/plain') }),
}
const context = makeServer({ log: silentLog, authenticate: () => Promise.reject(new Error('nothing is closed here')), stalledMs: STALLED_MS })
context.strangerBodyMs = BODY_MS
mount(context, contract, {
  large: () => 'x'.repeat(LARGE),
  slow: async () => {
    await sleep(3 * STALLED_MS)
    return 'done'
  },
  asks: () => 'done',
  hurries: () => 'done',
})
let port: number
const accepted: Socket[] = []
beforeAll(async () => {
  await context.app.listen({ host: '127.0.0.1', port: 0 })
  port = (context.app.server.address() as AddressInfo).port
  context.app.server.on('connection', (socket) => accepted.push(socket))
})
afterAll(() => context.app.close())

/** A client that has asked and reads nothing yet, and the server's side of its connection. */
async function asked(path: string): Promise<{ client: Socket; server: Socket }> {
  const client = connect(port, '127.0.0.1').pause()
  client.on('error', () => {})
  await once(client, 'connect')
  client.write(`GET ${path} HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n`)
  const own = (client.address() as AddressInfo).port
  return { client, server: await until('the connection', NOTICE_MS, () => accepted.find(({ remotePort }) => remotePort === own)) }
}

test('an answer that its caller does not read is given up, and its memory is free', async () => {
  const { client, server } = await asked('/large')
  await until('the answer to wait', NOTICE_MS, () => server.writableLength > LARGE / 2)
  await until('the end of the connection', NOTICE_MS, () => server.destroyed)
  client.destroy()
})

test('a caller that reads slowly gets all of its answer', async () => {
  const { client } = await asked('/large')
  let got = 0
  const began = performance.now()
  client.on('data', (chunk: Buffer) => {
    got += chunk.length
    client.pause()
    setTimeout(() => client.resume(), 5)
  })
  client.resume()
  await once(client, 'end')
  expect(got).toBeGreaterThan(LARGE)
  expect(performance.now() - began).toBeGreaterThan(2 * STALLED_MS)
})

test('a caller may wait for an answer for as long as it takes', async () => {
  const { client } = await asked('/slow')
  let got = ''
  client.on('data', (chunk: Buffer) => void (got += chunk.toString())).resume()
  await once(client, 'end')
  expect(got).toMatch(/200 OK[^]*done$/)
})

test.each([
  ['a stranger', 'asks', 408, 'request_timeout'],
  ['anybody, within the time of the call', 'hurries', 504, 'deadline_exceeded'],
])('the body of %s has to come in time; then its connection ends', async (_, path, status, code) => {
  const client = connect(port, '127.0.0.1')
  let said = ''
  client.on('error', () => {}).on('data', (chunk: Buffer) => (said += chunk.toString()))
  client.write(`POST /${path} HTTP/1.1\r\nhost: here\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{`)
  await until('the end of the connection', NOTICE_MS, () => client.readableEnded)
  expect(said).toContain(`HTTP/1.1 ${status} `)
  expect(said).toContain(`"${code}"`)
  client.destroy()
})

test('the kernel probes quiet connections, so that a caller that vanished is noticed', async () => {
  const { client, server } = await asked('/slow')
  const hex = (number: number) => number.toString(16).toUpperCase().padStart(4, '0')
  // proc(5): `tr`, the sixth field, is 2 for a keepalive timer.
  const line = await until('the connection', NOTICE_MS, () =>
    readFileSync('/proc/net/tcp', 'utf8')
      .split('\n')
      .map((row) => row.trim().split(/\s+/))
      .find(([, local, remote]) => local?.endsWith(`:${hex(port)}`) && remote?.endsWith(`:${hex(server.remotePort!)}`)),
  )
  expect(line[5]!.split(':')[0]).toBe('02')
  client.destroy()
})
