// With a proxy, a session's browser sends nothing past it. The tests read the packets at the point where they would leave the session's network. They also switch proxies
// under load.
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { createServer as createHttp, request, type IncomingMessage, type RequestListener, type Server as HttpServer } from 'node:http'
import { createServer as createHttps } from 'node:https'
import type { AddressInfo } from 'node:net'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { WebSocketServer } from 'ws'
import { HOST_ALIAS } from '../../src/base/own-addresses.ts'
import { sleep } from '../../src/base/wait.ts'
import type { Cloud } from '../support/cloud.ts'
import { extensionZip } from '../support/extensions.ts'
import { processesOf, runInside } from '../support/inside.ts'
import { watchPackets } from '../support/packets.ts'
import { openSession, type Session } from '../support/session.ts'
import { shareCloud } from '../support/shared-cloud.ts'
import { httpProxy, makeCertificates, serveSockets, type TestProxy } from '../support/upstreams.ts'

/** The servers listen on all addresses, so the address of a request shows its path: without a proxy it is this one, and each proxy connects to another. */
const DIRECT = '127.0.0.1'
const names = (address: string) => ({ [HOST_ALIAS]: address })

/** The limit for requests of a page to arrive, on a busy machine. */
const ARRIVED_MS = 20_000
/** How long to wait for unexpected requests after all expected ones have arrived. */
const LATE_MS = 500

let cloud: Cloud
let lean: Cloud
let plain: { port: number }
let secure: { port: number }
let stun: number
/** What arrived directly and through a proxy: `/path`, or `udp`. */
const came: { direct: string[]; proxied: string[] } = { direct: [], proxied: [] }
/** Direct connections on which the servers send without end. */
const open = new Set<object>()
/** Called for each request, with its path and the local address at which it arrived. */
let hear = (_path: string, _address: string): void => {}
/** The address of {@link HOST_ALIAS} inside the session. */
let gateway: string
const ended = new AsyncDisposableStack()

const answer: RequestListener = (incoming, reply) => {
  const { url = '/', socket } = incoming
  came[socket.localAddress === DIRECT ? 'direct' : 'proxied'].push(url)
  hear(url, socket.localAddress!)
  const headers = { 'access-control-allow-origin': '*', 'alt-svc': `h3=":${secure.port}"; ma=60` }
  if (url.endsWith('/download')) return void reply.writeHead(200, { ...headers, 'content-disposition': 'attachment' }).end('x'.repeat(1000))
  if (url.endsWith('/endless')) {
    reply.writeHead(200, headers)
    const timer = setInterval(() => reply.write('more'), 20)
    if (socket.localAddress === DIRECT) open.add(reply)
    return void reply.on('close', () => clearInterval(timer)).on('close', () => open.delete(reply))
  }
  const head = `<link rel=icon href=${url}/icon><link rel=prefetch href=${url}/prefetch><link rel=dns-prefetch href=//${Date.now()}.test.invalid>`
  reply
    .writeHead(200, { ...headers, 'content-type': 'text/html' })
    .end(`<!doctype html>${head}<link rel=preconnect href=http://${HOST_ALIAS}:${secure.port}><p>page`)
}
/** Accepts WebSockets, and sends messages on them all the time. */
function withSockets(server: HttpServer): HttpServer {
  new WebSocketServer({ server }).on('connection', (socket, { url = '', socket: { localAddress } }) => {
    came[localAddress === DIRECT ? 'direct' : 'proxied'].push(url)
    const timer = setInterval(() => socket.send('more'), 20)
    if (localAddress === DIRECT) open.add(socket)
    socket.on('close', () => clearInterval(timer)).on('close', () => open.delete(socket))
    socket.on('error', () => {})
  })
  return server
}

beforeAll(async () => {
  plain = ended.use(await serveSockets(withSockets(createHttp(answer)), '0.0.0.0'))
  secure = ended.use(await serveSockets(withSockets(createHttps(await makeCertificates(), answer)), '0.0.0.0'))
  // QUIC uses the same port number as HTTPS.
  for (const port of [secure.port, 0]) {
    const socket = createSocket('udp4', () => came.direct.push('udp'))
    socket.bind(port, '0.0.0.0')
    await once(socket, 'listening')
    ended.defer(() => void socket.close())
    stun = (socket.address() as AddressInfo).port
  }
  cloud = await shareCloud()
  lean = await shareCloud({ COB_HEADLESS: 'auto' })
})
afterAll(async () => {
  for (const each of [cloud, lean]) {
    for await (const { id } of each.client.proxies.list()) await each.client.proxies.delete(id!)
    await each[Symbol.asyncDispose]()
  }
  await ended.disposeAsync()
})

const proxyOf = async ({ port }: TestProxy, at = cloud): Promise<string> =>
  (await at.client.proxies.create({ type: 'custom', protocol: 'http', config: { host: DIRECT, port } })).id!

/** An extension whose service worker fetches the addresses that a page sends it. */
const FETCHER = extensionZip(
  {
    'worker.js': `chrome.runtime.onMessage.addListener((url, sender, answer) => { fetch(url).then(() => answer('done'), () => answer('failed')); return true })`,
    'page.js': `addEventListener('message', ({ data }) => data.fetched && chrome.runtime.sendMessage(data.fetched))`,
  },
  {
    manifest_version: 3,
    name: 'Fetcher',
    version: '1.0',
    host_permissions: ['<all_urls>'],
    background: { service_worker: 'worker.js' },
    content_scripts: [{ matches: ['<all_urls>'], js: ['page.js'], run_at: 'document_start' }],
  },
)

/** A session with the extension, a page over HTTP and a page over TLS. Both pages were opened without a proxy. */
async function openPages(): Promise<Session & { byTls: Page }> {
  const session = await openSession(cloud, { timeout_seconds: 300 })
  gateway = (await runInside(cloud, session.id, `getent ahostsv4 ${HOST_ALIAS}`)).output.split(' ')[0]!
  await cloud.client.browsers.loadExtensions(session.id, { extensions: [{ name: 'fetcher', zip_file: new File([new Uint8Array(FETCHER)], 'extension.zip') }] })
  return withPages(session)
}

async function withPages(session: Session): Promise<Session & { byTls: Page }> {
  const byTls = await session.browser.contexts()[0]!.newPage()
  const cdp = await session.page.context().newCDPSession(byTls)
  await cdp.send('Security.setIgnoreCertificateErrors', { ignore: true })
  await byTls.goto(`https://${HOST_ALIAS}:${secure.port}/first`)
  await session.page.goto(`http://${HOST_ALIAS}:${plain.port}/first`)
  return { ...session, byTls }
}

/** Functions that run in pages. They are text, because they use names that exist only there. */
const BY_HTTP = `({ http, stun }) => {
  fetch('http://' + http + '/fetch').catch(() => {})
  navigator.sendBeacon('http://' + http + '/beacon')
  new WebSocket('ws://' + http + '/socket').onerror = () => {}
  const events = new EventSource('http://' + http + '/events')
  events.onerror = () => events.close()
  postMessage({ fetched: 'http://' + http + '/extension' }, '*')
  const link = Object.assign(document.createElement('a'), { href: 'http://' + http + '/download', download: 'file' })
  document.body.append(link)
  link.click()
  const peer = (globalThis.peer = new RTCPeerConnection({ iceServers: [{ urls: ['stun:' + stun] }] }))
  peer.createDataChannel('data')
  peer.createOffer().then((offer) => peer.setLocalDescription(offer))
}`
const BY_TLS = `({ https }) => {
  fetch('https://' + https + '/fetch-tls').catch(() => {})
  new WebSocket('wss://' + https + '/socket-tls').onerror = () => {}
  const quic = new WebTransport('https://' + https + '/quic', { serverCertificateHashes: [{ algorithm: 'sha-256', value: new Uint8Array(32) }] })
  quic.ready.catch(() => {})
  quic.closed.catch(() => {})
}`

/** Makes the pages use every kind of request; each path begins with `name`. Failed requests are ignored. Resolves a moment after `arrived`. */
async function tryEverything({ page, byTls, browser }: Awaited<ReturnType<typeof openPages>>, name: string, arrived: () => Promise<unknown>): Promise<void> {
  const where = { http: `${HOST_ALIAS}:${plain.port}/${name}`, https: `${HOST_ALIAS}:${secure.port}/${name}`, stun: `${gateway}:${stun}` }
  const another = await browser.contexts()[0]!.newPage()
  await another.goto(`http://${where.http}/page`)
  await page.evaluate(`(${BY_HTTP})(${JSON.stringify(where)})`)
  await byTls.evaluate(`(${BY_TLS})(${JSON.stringify(where)})`)
  await arrived()
  await sleep(LATE_MS)
  await another.close()
}

/** The paths that are requested over TCP. (Chromium requests the favicon once per page.) */
const TRIED = ['page', 'page/icon', 'page/prefetch', 'fetch', 'beacon', 'socket', 'events', 'extension', 'download', 'fetch-tls', 'socket-tls']
const all = (name: string, tried = TRIED) => expect.arrayContaining(tried.map((path) => `/${name}/${path}`))

test('without a proxy everything that is tried arrives directly, by TCP, UDP and DNS; with one nothing does, and no packet leaves the session; nor with a dead one', async () => {
  await using proxy = await httpProxy({ names: names('127.0.0.2') })
  const id = await proxyOf(proxy)
  await using session = await openPages()
  {
    await using packets = await watchPackets(cloud, session.id)
    const gone = [/^tcp .*:\d+$/m, /^udp .*:53$/m, new RegExp(`^udp .*:${stun}$`, 'm'), new RegExp(`^udp .*:${secure.port}$`, 'm')]
    await tryEverything(session, 'none', async () => {
      await expect.poll(() => came.direct, { timeout: ARRIVED_MS }).toEqual(all('none'))
      for (const to of gone) await expect.poll(() => [...new Set(packets.seen)].join('\n'), { timeout: ARRIVED_MS }).toMatch(to)
    })
    expect(came.direct).toContain('udp')
    expect(came.proxied).toEqual([])
  }
  await cloud.client.browsers.update(session.id, { proxy_id: id })
  {
    came.direct.length = 0
    await using packets = await watchPackets(cloud, session.id)
    await tryEverything(session, 'through', () => expect.poll(() => came.proxied, { timeout: ARRIVED_MS }).toEqual(all('through')))
    expect([packets.seen, came.direct]).toEqual([[], []])
  }
  await proxy[Symbol.asyncDispose]()
  {
    came.proxied.length = 0
    await using packets = await watchPackets(cloud, session.id)
    await tryEverything(session, 'dead', () => sleep(LATE_MS))
    expect([packets.seen, came.direct, came.proxied]).toEqual([[], [], []])
  }
})

test('of a lean session, too: without a proxy it arrives directly, with one nothing leaves', async () => {
  await using proxy = await httpProxy({ names: names('127.0.0.2') })
  const tried = TRIED.filter((path) => path !== 'extension' && !path.endsWith('/icon'))
  for (const [name, proxy_id] of [
    ['lean', ''],
    ['lean-through', await proxyOf(proxy, lean)],
  ] as const) {
    await using opened = await openSession(lean, { headless: true, timeout_seconds: 300, proxy_id })
    gateway = (await runInside(lean, opened.id, `getent ahostsv4 ${HOST_ALIAS}`)).output.split(' ')[0]!
    expect(processesOf(lean, opened.id).some(({ command }) => command.startsWith('/usr/lib/chromium/chromium-headless-shell'))).toBe(true)
    const session = await withPages(opened)
    came.direct.length = came.proxied.length = 0
    await using packets = await watchPackets(lean, session.id)
    const [expected, other] = proxy_id === '' ? [came.direct, came.proxied] : [came.proxied, came.direct]
    await tryEverything(session, name, () => expect.poll(() => expected, { timeout: ARRIVED_MS }).toEqual(all(name, tried)))
    if (proxy_id === '') await expect.poll(() => came.direct, { timeout: ARRIVED_MS }).toContain('udp')
    else expect(packets.seen).toEqual([])
    expect(other).toEqual([])
  }
})

/** Programs of the session: one sends to the test's UDP server and prints the result, the other connects by TCP. */
const SEND = () =>
  `python3 -c "import socket; s = socket.socket(type=socket.SOCK_DGRAM); s.connect(('${gateway}', ${stun})); s.send(b'x'); s.send(b'x'); print('sent')"`
const FETCH = () => `python3 -c "import urllib.request; print(urllib.request.urlopen('http://${gateway}:${plain.port}/program').status)"`

test('what is open when a proxy is set ends with that: connections of the browser, and its UDP. Programs go on by TCP; without the proxy all is as before', async () => {
  await using proxy = await httpProxy({ names: names('127.0.0.2') })
  const id = await proxyOf(proxy)
  await using session = await openPages()
  const inside = async (line: string) => (await runInside(cloud, session.id, line)).output.trim()
  // Of twenty requests, six have a connection, and the others wait for one.
  await session.page.evaluate(`void (() => { for (let n = 0; n < 20; n++) fetch('/open/endless').catch(() => {}) })()`)
  await session.page.evaluate(`void new WebSocket('ws://${HOST_ALIAS}:${plain.port}/open/socket')`)
  await session.page.evaluate(`(async () => {
    const [peer, other] = [new RTCPeerConnection(), new RTCPeerConnection()]
    globalThis.peers = [peer, other]
    peer.createDataChannel('data')
    await peer.setLocalDescription()
    await other.setRemoteDescription(peer.localDescription)
    await other.setLocalDescription()
    await peer.setRemoteDescription(other.localDescription)
    // The peer connection checks each candidate all the time.
    await peer.addIceCandidate({ candidate: 'candidate:1 1 udp 2113937151 ${gateway} ${stun} typ host', sdpMLineIndex: 0 })
  })()`)
  came.direct.length = 0
  await expect.poll(() => came.direct.filter((what) => what === 'udp').length, { timeout: ARRIVED_MS }).toBeGreaterThan(2)
  await expect.poll(() => open.size, { timeout: ARRIVED_MS }).toBe(7)

  const began = performance.now()
  await cloud.client.browsers.update(session.id, { proxy_id: id })
  console.info(`a switch with connections open: ${(performance.now() - began).toFixed(0)} ms`)
  {
    await using packets = await watchPackets(cloud, session.id)
    await expect.poll(() => open.size, { timeout: ARRIVED_MS }).toBe(0)
    came.direct.length = 0
    await sleep(LATE_MS)
    expect([packets.seen, came.direct]).toEqual([[], []])
    expect(await inside(SEND())).toMatch(/refused|unreachable/)
    expect(await inside(FETCH())).toBe('200')
    expect(came.direct).toEqual(['/program'])
  }
  await cloud.client.browsers.update(session.id, { proxy_id: '' })
  expect(await inside(SEND())).toBe('sent')
  expect(await inside('ip rule; ip -6 rule')).not.toContain('udp')
})

/** Requests the plain server through the port: it belongs to a proxy, or to the server itself. */
async function ask(port: number): Promise<void> {
  const [reply] = (await once(request({ port, path: `http://${HOST_ALIAS}:${plain.port}/drain`, agent: false }).end(), 'response')) as [IncomingMessage]
  await once(reply.resume(), 'end')
}

test('fifty switches under load: no request begun after one goes another way, and none of before goes on', async () => {
  await using first = await httpProxy({ names: names('127.0.0.2') })
  await using second = await httpProxy({ names: names('127.0.0.3') })
  const ways = [
    { proxy_id: await proxyOf(first), address: '127.0.0.2' },
    { proxy_id: await proxyOf(second), address: '127.0.0.3' },
    { proxy_id: '', address: DIRECT },
  ]
  await using session = await openSession(cloud, { timeout_seconds: 300 })
  const context = session.browser.contexts()[0]!
  const pages = [session.page, await context.newPage(), await context.newPage()]
  // Each of the six loops sends its next request soon after the last. Without the pause they would use two full cores.
  const fetchAll = `for (let n = 0; n < 2; n++) (async () => { for (;;) { await fetch('/at/' + (globalThis.turn ?? 0), { cache: 'no-store' }).then((a) => a.text()).catch(() => {}); await new Promise((r) => setTimeout(r, 20)) } })()`
  for (const page of pages) await page.goto(`http://${HOST_ALIAS}:${plain.port}/load`)
  for (const page of pages) await page.evaluate(`void (() => { ${fetchAll} })()`)

  let [turn, address, isDrained, requests] = [0, DIRECT, false, 0]
  const wrong: string[] = []
  hear = (path, at) => {
    const begun = Number(/^\/at\/(\d+)$/.exec(path)?.[1] ?? -1)
    if (begun < 0) return
    requests++
    if (at !== address && (begun === turn || isDrained)) wrong.push(`turn ${turn} by ${address}: request of turn ${begun} by ${at}`)
  }
  // Requests that were sent before a switch may still be in this process's buffers. These requests take the same path and arrive after them.
  const drain = async () => {
    for (let n = 0; n < 3; n++) await Promise.all([first.port, second.port, plain.port].map(ask))
  }
  const took: number[] = []
  for (const way of Array.from({ length: 50 }, (_, n) => ways[n % 5 === 4 ? 2 : n % 2]!)) {
    ;[turn, isDrained] = [-1, false]
    const began = performance.now()
    await cloud.client.browsers.update(session.id, { proxy_id: way.proxy_id })
    took.push(performance.now() - began)
    ;[turn, address] = [took.length, way.address]
    await drain()
    isDrained = true
    await Promise.all(pages.map((page) => page.evaluate(`globalThis.turn = ${turn}`)))
    await sleep(LATE_MS / 10)
  }
  hear = () => {}
  const sorted = took.toSorted((a, b) => a - b)
  console.info(`50 switches under ${requests} requests: half within ${sorted[25]!.toFixed(0)} ms, all within ${sorted[49]!.toFixed(0)} ms`)
  expect(wrong).toEqual([])
  expect(requests).toBeGreaterThan(200)
  // If Chromium saw a policy file as new, it would wait five seconds (chromium/policies.ts).
  expect(sorted[25]).toBeLessThan(3_000)
})
