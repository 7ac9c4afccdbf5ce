// The mapper's thread with a fake browser.
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import { silentLog } from '../../base/log.ts'
import { until } from '../../base/wait.ts'
import { connectBidi } from './bidi.ts'

const scope: (() => unknown)[] = []
afterEach(async () => {
  for (const leave of scope.splice(0).toReversed()) await leave()
})

/** The answers of a browser without tabs to the commands that a mapper sends at its start. */
const ANSWERS: Record<string, object> = {
  'Target.attachToBrowserTarget': { sessionId: 'S' },
  'Target.getBrowserContexts': { browserContextIds: [], defaultBrowserContextId: 'C' },
  'Target.getTargets': { targetInfos: [] },
  'Browser.getVersion': { product: 'Chrome/1.2.3.4', revision: '@1', userAgent: 'UA' },
}

async function listen(): Promise<{ server: WebSocketServer; port: number }> {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' })
  await once(server, 'listening')
  scope.push(() => {
    server.clients.forEach((socket) => socket.terminate())
    server.close()
  })
  return { server, port: (server.address() as AddressInfo).port }
}

async function connect(port: number) {
  const faults: string[] = []
  const log = { ...silentLog, warn: ({ fault }: { fault?: unknown }) => void faults.push(String(fault)) }
  const exited = Promise.withResolvers<{ code: number | null; signal: string | null }>()
  const front = await listen()
  front.server.on('connection', (socket) => connectBidi(socket, { port, browserPath: '/b', exited: exited.promise }, () => false, log))
  const client = new WebSocket(`ws://127.0.0.1:${front.port}`)
  const closed = new Promise<{ code: number; reason: string }>((resolve) => client.on('close', (code, reason) => resolve({ code, reason: String(reason) })))
  const answers: { id: number; type: string }[] = []
  client.on('message', (data) => answers.push(JSON.parse((data as Buffer).toString())))
  await once(client, 'open')
  const ask = async (id: number, method: string, params: object = {}) => {
    client.send(JSON.stringify({ id, method, params }))
    return until(`the answer to ${method}`, 10_000, () => answers.find((answer) => answer.id === id))
  }
  return { client, closed, faults, ask, exited }
}

async function pretendBrowser() {
  const browser = await listen()
  const lines: WebSocket[] = []
  browser.server.on('connection', (socket) => {
    lines.push(socket)
    socket.on('message', (data) => {
      const { id, method, sessionId } = JSON.parse((data as Buffer).toString()) as { id: number; method: string; sessionId?: string }
      socket.send(JSON.stringify({ id, sessionId, result: ANSWERS[method] ?? {} }))
    })
  })
  return { port: browser.port, lines }
}

test('an exception in a mapper is logged, and its client can continue', async () => {
  const browser = await pretendBrowser()
  const bidi = await connect(browser.port)
  expect(await bidi.ask(1, 'session.new', { capabilities: {} })).toMatchObject({ type: 'success' })
  browser.lines[0]!.send('no JSON')
  browser.lines[0]!.send('null')
  await until('the faults', 5_000, () => bidi.faults.length === 2)
  expect(await bidi.ask(2, 'browsingContext.getTree')).toMatchObject({ type: 'success' })
  bidi.client.close()
})

test('session.end closes the connection with the normal code; the end of the browser closes it with an error code', async () => {
  const browser = await pretendBrowser()
  const first = await connect(browser.port)
  await first.ask(0, 'session.new', { capabilities: {} })
  expect(await first.ask(1, 'session.end')).toMatchObject({ type: 'success' })
  expect(await first.closed).toEqual({ code: 1000, reason: '{"reason":"ended"}' })
  const second = await connect(browser.port)
  await second.ask(1, 'session.status')
  browser.lines[1]!.terminate()
  expect((await second.closed).code).toBe(4003)
})

test('a mapper that cannot reach its browser closes only its own client', async () => {
  const browser = await pretendBrowser()
  const lasting = await connect(browser.port)
  const { server, port } = await listen()
  server.on('connection', (socket) => socket.terminate())
  const failing = await connect(port)
  expect((await failing.closed).code).toBeGreaterThanOrEqual(1011)
  expect(await lasting.ask(1, 'session.status')).toMatchObject({ type: 'success' })
  lasting.client.close()
})
