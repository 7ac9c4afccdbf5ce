// One request to a collector: allowed addresses, the meaning of the answer, and its time limit.
import { createServer } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import { createServer as createTcpServer, type AddressInfo, type Server } from 'node:net'
import { once } from 'node:events'
import { pipeline } from 'node:stream/promises'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { startCollector, type Collector } from '../../../../../test/support/otlp.ts'
import { makeAgentKeys } from '../../../../instances/agent-keys.ts'
import { logsOf, makeEncoder } from './otlp.ts'
import { makeSender, type Sender } from './sender.ts'

let collector: Collector
let sender: Sender
beforeEach(async () => {
  collector = await startCollector()
  sender = makeSender({ allowHostLoopback: true })
})
afterEach(async () => {
  sender[Symbol.dispose]()
  await collector[Symbol.asyncDispose]()
})

const content = () => {
  const event = {
    type: 'console_log',
    category: 'console',
    ts: Date.now() * 1000,
    source: { kind: 'cdp' },
    data: { text: 'hello', 'a.b': 1, a: { b: 2 } },
  } as const
  return logsOf({ session: 's', project: undefined, region: 'eu-west' }, [makeEncoder({ session: 's' })({ seq: 1, event }).record])
}
const send = (endpoint: string, signal: AbortSignal = AbortSignal.timeout(20_000), by = sender) => by.send({ endpoint, headers: {} }, 'logs', content(), signal)
const listening = async (server: Server): Promise<string> => {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return `127.0.0.1:${(server.address() as AddressInfo).port}`
}

test('a request is taken; names that meet are sent once', async () => {
  expect(await send(collector.url)).toEqual({ kind: 'delivered', rejected: 0 })
  expect(collector.wrong).toEqual([])
  expect(collector.logs('s')[0]).toMatchObject({ attributes: { 'cob.event.data.a.b': 1 }, record: { droppedAttributesCount: 1 } })
})

test('addresses are checked at each request: one that has become closed is not connected to', async () => {
  const closed = makeSender({ allowHostLoopback: false })
  const { port } = new URL(collector.url)
  for (const host of ['127.0.0.1', 'localhost', '[::1]', '169.254.169.254', '0.0.0.0', '[::ffff:127.0.0.1]'])
    expect(await send(`http://${host}:${port}`, undefined, closed)).toEqual({ kind: 'failed', error: 'address_not_reachable', retryAfterMs: 0 })
  expect(collector.asked).toEqual([])
  closed[Symbol.dispose]()
})

test('a redirection is not followed', async () => {
  const { port } = new URL(collector.url)
  collector.trouble = { status: 307, headers: { location: `http://127.0.0.1:${port}/v1/traces` } }
  expect(await send(collector.url)).toEqual({ kind: 'failed', error: 'http_307', retryAfterMs: 0 })
  expect(collector.asked).toHaveLength(1)
})

test('a certificate that nobody vouches for is refused', async () => {
  const { certificate, key } = (await makeAgentKeys()).server
  await using server = createSecureServer({ cert: certificate, key }, (_, response) => void response.end('{}'))
  expect(await send(`https://${await listening(server)}`)).toEqual({ kind: 'failed', error: 'tls_failed', retryAfterMs: 0 })
})

test('a server that closes an idle connection is asked again at once', async () => {
  let asked = 0
  await using server = createServer((request, response) => {
    request.resume().on('end', () => {
      asked++
      // The second request of a connection is never answered.
      if (asked === 2) request.socket.destroy()
      else response.end('{}')
    })
  })
  const endpoint = `http://${await listening(server)}`
  expect([await send(endpoint), await send(endpoint), asked]).toEqual([{ kind: 'delivered', rejected: 0 }, { kind: 'delivered', rejected: 0 }, 3])
})

test('an answer without an end is left, and one that is no HTTP is a failure', async () => {
  async function* forever() {
    for (;;) yield Buffer.alloc(10_000)
  }
  await using endless = createServer((_, response) => void pipeline(forever, response).catch(() => {})) // ends with its connection
  expect(await send(`http://${await listening(endless)}`)).toEqual({ kind: 'delivered', rejected: 0 })
  endless.closeAllConnections()
  await using odd = createTcpServer(
    (socket) =>
      void socket
        .on('error', () => {})
        .resume()
        .end('220 hello\r\n'),
  )
  expect(await send(`http://${await listening(odd)}`)).toEqual({ kind: 'failed', error: 'connection_failed', retryAfterMs: 0 })
})

test('a signal ends a request, with its reason', async () => {
  collector.trouble = { ms: 60_000 }
  const stop = new AbortController()
  const sent = send(collector.url, stop.signal)
  stop.abort(new Error('the service stops'))
  await expect(sent).rejects.toThrow('the service stops')
})
