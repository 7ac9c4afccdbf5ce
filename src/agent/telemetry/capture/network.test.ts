// Events of requests, over a fake Chromium: limits, and events in Chromium's own order. With a real one: test/e2e/telemetry-network.test.ts.
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { collecting, type Collecting } from '../../../../test/support/collecting.ts'
import { makeSecrets } from '../../../base/redact/redact.ts'
import { networkCollector } from './network.ts'
import { proxyErrorOf, proxyErrorOfFailure } from './network/proxy-errors.ts'

const collector = () => networkCollector(makeSecrets())

const sent = (requestId: string, url: string, more: object = {}) => ({
  requestId,
  loaderId: 'LOADER',
  documentURL: 'https://page.test/',
  request: { url, method: 'GET', headers: {} },
  initiator: { type: 'script' },
  type: 'Fetch',
  frameId: 'TARGET',
  ...more,
})
const answered = (requestId: string, url: string, response: object = {}) => ({
  requestId,
  loaderId: 'LOADER',
  frameId: 'TARGET',
  type: 'Fetch',
  response: { url, status: 200, statusText: 'OK', mimeType: 'text/plain', headers: {}, ...response },
})
/** A successful request. */
function load({ emit }: Collecting, requestId: string, url: string, { bytes = 5, ...response }: { bytes?: number; [field: string]: unknown } = {}): void {
  emit('Network.requestWillBeSent', sent(requestId, url))
  emit('Network.responseReceived', answered(requestId, url, response))
  emit('Network.dataReceived', { requestId, dataLength: bytes })
  emit('Network.loadingFinished', { requestId, encodedDataLength: bytes })
}

test('bodies are fetched eight at a time, those that wait are bounded, and answers without one say that something is left out', async () => {
  const asked: ((body: object) => void)[] = []
  const made = await collecting(collector(), 'page', { 'Network.getResponseBody': () => new Promise((resolve) => asked.push(resolve)) })
  for (let count = 0; count < 300; count++) load(made, `1.${count}`, `https://page.test/${count}`)
  await vi.waitFor(() => expect(asked).toHaveLength(8))
  await vi.waitFor(() => expect(made.of('network_response')).toHaveLength(300 - 8 - 256))
  expect(made.received.filter(({ type, truncated }) => type === 'network_response' && truncated)).toHaveLength(36)
  for (let count = 0; count < 264; count++) {
    await vi.waitFor(() => expect(asked.length).toBeGreaterThan(count))
    asked[count]!({ body: 'hello', base64Encoded: false })
  }
  await vi.waitFor(() => expect(made.of('network_response').filter(({ body }) => body === 'hello')).toHaveLength(264))
})

describe('of a second', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['performance'] }))
  afterEach(() => void vi.useRealTimers())

  test('bodies are bounded in bytes, over all requests', async () => {
    const made = await collecting(collector(), 'page', { 'Network.getResponseBody': () => ({ body: 'hello', base64Encoded: false }) })
    for (let count = 0; count < 40; count++) load(made, `1.${count}`, `https://page.test/${count}`, { bytes: 1024 * 1024 })
    await vi.waitFor(() => expect(made.of('network_response')).toHaveLength(40))
    expect(made.of('network_response').filter(({ body }) => body === 'hello')).toHaveLength(16)
  })

  test('a thousand requests are told, the others are counted', async () => {
    const made = await collecting(collector())
    for (let count = 0; count < 1_200; count++) made.emit('Network.requestWillBeSent', sent(`1.${count}`, `https://page.test/${count}`))
    await made.stop()
    expect(made.of('network_request')).toHaveLength(1_000)
    expect(made.of('monitor_events_lost')).toMatchObject([{ reason: 'network', count: 200 }])
  })
})

test('only bodies of text are asked for, and none that is long, empty, or not kept', async () => {
  const made = await collecting(collector(), 'page', { 'Network.getResponseBody': () => ({ body: 'hello', base64Encoded: false }) })
  const kinds: [string, Record<string, unknown>][] = [
    ['text', { mimeType: 'text/html' }],
    ['json', { mimeType: 'application/problem+json' }],
    ['image', { mimeType: 'image/png' }],
    ['font', { mimeType: 'font/woff2' }],
    ['zip', { mimeType: 'application/octet-stream' }],
    ['long', { mimeType: 'text/plain', bytes: 200_000_000 }],
    ['none', { mimeType: 'text/plain', bytes: 0 }],
    ['blob', { mimeType: 'text/plain', bytes: 0, headers: { 'Content-Length': '7' } }],
  ]
  for (const [name, response] of kinds) load(made, `1.${name}`, `https://page.test/${name}`, response)
  await vi.waitFor(() => expect(made.of('network_response')).toHaveLength(kinds.length))
  const asked = made.chromium.sent.filter(({ method }) => method === 'Network.getResponseBody').map(({ params }) => params.requestId)
  expect(asked).toEqual(['1.text', '1.json'])
  const cut = made.received.filter(({ type, truncated }) => type === 'network_response' && truncated).map(({ data }) => data.url)
  expect(cut.toSorted()).toEqual(['https://page.test/blob', 'https://page.test/long'])
})

test('a body that cannot be had, and one that turns out to be binary, is left out', async () => {
  const bodies: Record<string, () => object> = {
    '1.gone': () => {
      throw new Error('No resource with given identifier found')
    },
    '1.binary': () => ({ body: Buffer.from([0, 1, 2]).toString('base64'), base64Encoded: true }),
  }
  const made = await collecting(collector(), 'page', { 'Network.getResponseBody': ({ requestId }) => bodies[requestId as string]!() })
  for (const id of Object.keys(bodies)) load(made, id, `https://page.test/${id}`)
  await vi.waitFor(() => expect(made.of('network_response')).toHaveLength(2))
  for (const data of made.of('network_response')) expect(data.body).toBeUndefined()
})

test('of 2,000 requests without an end the next ones are told, and what comes of them is counted as lost', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
  try {
    const made = await collecting(collector())
    for (let count = 0; count < 2010; count++) {
      made.emit('Network.requestWillBeSent', sent(`1.${count}`, `https://page.test/${count}`))
      // There is also a limit per second.
      if (count % 900 === 899) await vi.advanceTimersByTimeAsync(1_000)
    }
    expect(made.of('network_request')).toHaveLength(2010)
    await vi.advanceTimersByTimeAsync(1_000)
    expect(made.of('monitor_events_lost')).toEqual([{ reason: 'network', count: 10, target_id: 'TARGET', target_type: 'page' }])
    // After they end, there is room again.
    for (let count = 0; count < 2000; count++) made.emit('Network.loadingFailed', { requestId: `1.${count}`, type: 'Fetch', errorText: 'net::ERR_FAILED' })
    load(made, '1.new', 'https://page.test/new', { mimeType: 'image/png' })
    expect(made.of('network_response')).toHaveLength(1)
  } finally {
    vi.useRealTimers()
  }
})

test('long addresses, headers and posts are cut, and the event says so', async () => {
  const made = await collecting(collector())
  const request = {
    url: `https://page.test/?a=${'x'.repeat(100_000)}`,
    method: 'POST',
    headers: { 'x-long': 'y'.repeat(100_000) },
    postData: 'z'.repeat(50_000),
    hasPostData: true,
  }
  made.emit('Network.requestWillBeSent', sent('1.1', '', { request }))
  const [{ data, truncated }] = made.received as [Collecting['received'][number]]
  expect(truncated).toBe(true)
  expect([(data.url as string).length, (data.headers as Record<string, string>)['x-long']!.length, (data.post_data as string).length]).toEqual([
    4096, 2048, 8192,
  ])
})

test('what needs no network is not told', async () => {
  const made = await collecting(collector())
  for (const url of ['data:text/plain,hello', 'blob:https://page.test/1', 'about:blank', 'chrome://settings/', 'chrome-extension://abc/x.js'])
    load(made, '1.1', url)
  expect(made.received).toEqual([])
})

test('the network is idle 500 ms after the last request has ended, once; event streams and sockets do not keep it busy', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  try {
    const made = await collecting(collector())
    const idle = () => made.of('network_idle').length
    load(made, '1.1', 'https://page.test/1', { mimeType: 'image/png' })
    await vi.advanceTimersByTimeAsync(400)
    load(made, '1.2', 'https://page.test/2', { mimeType: 'image/png' })
    await vi.advanceTimersByTimeAsync(499)
    expect(idle()).toBe(0)
    await vi.advanceTimersByTimeAsync(1)
    expect(idle()).toBe(1)
    await vi.advanceTimersByTimeAsync(5_000)
    expect(idle()).toBe(1)
    made.emit('Network.requestWillBeSent', sent('1.3', 'https://page.test/events'))
    made.emit('Network.webSocketCreated', { requestId: '1.4', url: 'wss://page.test/socket' })
    await vi.advanceTimersByTimeAsync(5_000)
    expect(idle()).toBe(1)
    made.emit('Network.responseReceived', answered('1.3', 'https://page.test/events', { mimeType: 'text/event-stream' }))
    await vi.advanceTimersByTimeAsync(500)
    expect(idle()).toBe(2)
    // A document that replaces one whose requests Chromium has not ended.
    made.emit('Network.requestWillBeSent', sent('1.5', 'https://page.test/never'))
    made.emit('Network.requestWillBeSent', sent('NEXT', 'https://page.test/next', { loaderId: 'NEXT', type: 'Document' }))
    made.emit('Network.responseReceived', answered('NEXT', 'https://page.test/next'))
    made.emit('Network.loadingFinished', { requestId: 'NEXT', encodedDataLength: 0 })
    await vi.advanceTimersByTimeAsync(500)
    expect(idle()).toBe(3)
  } finally {
    vi.useRealTimers()
  }
})

test('a failure of a request that began before the capture has no address and no frame; an answer has its address', async () => {
  const made = await collecting(collector())
  made.emit('Network.loadingFailed', { requestId: '1.1', type: 'Fetch', errorText: 'net::ERR_FAILED', canceled: false })
  expect(made.of('network_loading_failed')).toEqual([
    { target_id: 'TARGET', target_type: 'page', session_id: 'session-1', nav_seq: 1, request_id: '1.1', error_text: 'net::ERR_FAILED', canceled: false },
  ])
  made.emit('Network.responseReceived', answered('1.2', 'https://page.test/2', { mimeType: 'image/png' }))
  made.emit('Network.loadingFinished', { requestId: '1.2', encodedDataLength: 5 })
  expect(made.of('network_response')).toMatchObject([{ url: 'https://page.test/2', status: 200, request_id: '1.2' }])
})

test('it leaves Chromium as it was, and says nothing more', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  try {
    const made = await collecting(collector())
    load(made, '1.1', 'https://page.test/1', { mimeType: 'image/png' })
    await made.stop()
    expect(made.commands().slice(1)).toEqual(['Network.enable', 'Network.disable'])
    const before = made.received.length
    load(made, '1.2', 'https://page.test/2')
    await vi.advanceTimersByTimeAsync(5_000)
    expect(made.received).toHaveLength(before)
    expect(vi.getTimerCount()).toBe(0)
  } finally {
    vi.useRealTimers()
  }
})

test('proxy errors have the codes of the API; what it does not name is unknown, in plain letters', () => {
  const of = (value: string, status = 502) => proxyErrorOf(status, { 'x-kernel-proxy-error': value })
  expect(of('unreachable')).toEqual({ code: 'provider_unreachable', status: 502 })
  expect(of('credentials')).toEqual({ code: 'provider_rejected', status: 502 })
  expect(of('refused')).toEqual({ code: 'upstream_connect_failed', status: 502 })
  expect(of('network_policy_denied', 403)).toEqual({ code: 'network_policy_denied', status: 403 })
  expect(of(' Some Thing-new! ')).toEqual({ code: 'unknown', raw_code: 'some_thing_new_', status: 502 })
  expect(of('x'.repeat(100))!.raw_code).toHaveLength(64)
  // A site may send this header, too.
  expect(of('unreachable', 200)).toBeUndefined()
  expect(proxyErrorOf(502, {})).toBeUndefined()
  expect(proxyErrorOfFailure('net::ERR_PROXY_CONNECTION_FAILED')).toEqual({ code: 'proxy_unavailable', status: 502 })
  expect(proxyErrorOfFailure('net::ERR_TUNNEL_CONNECTION_FAILED')).toEqual({ code: 'unknown', raw_code: 'err_tunnel_connection_failed', status: 502 })
  expect(proxyErrorOfFailure('net::ERR_CONNECTION_REFUSED')).toBeUndefined()
})

test('what comes through a tunnel is a site, not the proxy, whatever it says', async () => {
  const made = await collecting(collector())
  const response = { status: 502, headers: { 'X-Kernel-Proxy-Error': 'unreachable' } }
  load(made, '1.1', 'https://page.test/forged', response)
  load(made, '1.2', 'http://page.test/told', response)
  expect(made.of('proxy_error').map(({ url }) => url)).toEqual(['http://page.test/told'])
})

test('what is learned while a request is on its way is in no event about it', async () => {
  const secrets = makeSecrets()
  const made = await collecting(networkCollector(secrets))
  const [url, headers] = ['https://page.test/hunter22', { location: '/hunter22', hunter22: 'hunter22' }]
  made.emit('Network.requestWillBeSent', sent('1.1', url))
  made.emit('Network.responseReceived', answered('1.1', url, { headers, statusText: 'hunter22', mimeType: 'image/png' }))
  secrets.learn('hunter22')
  made.emit('Network.loadingFinished', { requestId: '1.1', encodedDataLength: 0 })
  const [answer] = made.of('network_response')
  expect(answer).toMatchObject({ url: 'https://page.test/[redacted]', headers: { location: '/[redacted]' } })
  expect(JSON.stringify(answer)).not.toContain('hunter22')
})

test('a learned value is in no part of a request, its answer, or its failure, nor its beginning where something is cut', async () => {
  const secrets = makeSecrets()
  secrets.learn('hunter22')
  const made = await collecting(networkCollector(secrets))
  const end = (length: number) => `${'x'.repeat(length - 5)} hunter22`
  const url = 'https://page.test/'
  made.emit('Network.requestWillBeSent', sent('1.1', url, { request: { url, method: 'hunter22', headers: { hunter22: 'a' } } }))
  made.emit('Network.responseReceived', answered('1.1', url, { statusText: end(256), mimeType: end(128), headers: { 'x-hunter22': 'a' } }))
  made.emit('Network.loadingFinished', { requestId: '1.1', encodedDataLength: 0 })
  made.emit('Network.loadingFailed', { requestId: '1.2', type: 'Fetch', errorText: end(256), timestamp: 1 })
  expect(made.types()).toEqual(['network_request', 'network_response', 'network_loading_failed'])
  expect(JSON.stringify(made.received)).not.toMatch(/hunt/)
})
