// A session's events about its network and its console: each kind of event with its fields, and what is left out. telemetry-floods.test.ts tests floods.
import { createHash, randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { forTests } from '../support/for-tests.ts'
import { shareCloud } from '../support/shared-cloud.ts'
import { watchedSession, type Received, type WatchedSession } from '../support/telemetry.ts'
import { serveSockets } from '../support/upstreams.ts'

const CANARY = `cAnArY${randomUUID().slice(0, 8)}`

const json = { list: 'x'.repeat(20_000), last: true }
const html = (script: string, body = '') => `<!doctype html><title>page</title><link rel="icon" href="data:,">${body}<script>${script}</script>`
const PAGES: Record<string, string> = {
  '/empty': html(''),
  '/kinds': html(
    `new Worker('/worker.js')
     new SharedWorker('/shared.js')
     new EventSource('/events')
     new WebSocket('ws://' + location.host + '/socket?token=${CANARY}')`,
    '<iframe sandbox="allow-scripts" src="/frame"></iframe>',
  ),
  '/console': html(
    `console.warn('first', { a: 1, b: [1, 2] }, [3, 'x'], null, undefined, 12n, NaN)
     console.error('bad', new Error('why'))
     setTimeout(function late() { throw new TypeError('boom') })
     Promise.reject(new RangeError('later'))
     console.info('z'.repeat(10_000))`,
  ),
  '/frame': html(`fetch('/text?frame'); console.log('in a frame')`),
  '/echo': `<!doctype html><input name="password" value="${CANARY}">`,
}
const FILES: Record<string, [string, string | Buffer]> = {
  '/json': ['application/json', JSON.stringify(json)],
  '/text': ['text/plain', 'é'.repeat(10_000)],
  '/form': ['application/x-www-form-urlencoded', `user=kim&password=${CANARY}&more=${'x'.repeat(10_000)}`],
  '/xml': ['application/xml', `<a><password>${CANARY}</password>${'<b/>'.repeat(5000)}</a>`],
  '/image': ['image/png', Buffer.alloc(5000, 1)],
  '/long': ['text/plain', 'y'.repeat(3_000_000)],
  '/worker.js': ['text/javascript', `fetch('/text?worker'); console.log('in a worker')`],
  '/shared.js': ['text/javascript', `fetch('/text?shared'); console.log('in a shared worker')`],
  '/secret': ['application/json', JSON.stringify({ user: 'kim', access_token: CANARY, nested: { refreshToken: CANARY } })],
}

function answer(request: IncomingMessage, reply: ServerResponse): void {
  const { pathname } = new URL(request.url!, 'http://site')
  const page = PAGES[pathname]
  if (page !== undefined) return void reply.setHeader('content-type', 'text/html').end(page)
  if (pathname === '/hop') return void reply.writeHead(302, { location: '/hop2' }).end()
  if (pathname === '/hop2') return void reply.writeHead(307, { location: '/json' }).end()
  if (pathname === '/never') return
  if (pathname === '/hang-up') return void request.socket.destroy()
  if (pathname === '/nothing') return void reply.writeHead(204).end()
  if (pathname === '/events') return void reply.writeHead(200, { 'content-type': 'text/event-stream' }).write('data: 1\n\n')
  const [type, body] = FILES[pathname] ?? ['text/plain', `${pathname}\n`]
  reply
    .writeHead(200, { 'content-type': type, 'set-cookie': `sid=${CANARY}`, 'x-auth-token': CANARY, 'content-length': Buffer.byteLength(body) })
    .end(request.method === 'HEAD' ? undefined : body)
}

let site: string
/** Most tests share this session, which captures network and console. `received` has its events since the test began. */
let session: WatchedSession['session']
let received: WatchedSession['received']
const ended = new AsyncDisposableStack()
const cloud = forTests(() => shareCloud())
beforeAll(async () => {
  const server = createServer((request, reply) => {
    text(request).then(
      () => answer(request, reply),
      () => reply.destroy(),
    )
  })
  server.on('upgrade', ({ headers }, socket: Duplex) => {
    const accepted = createHash('sha1').update(`${headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64')
    socket.on('error', () => {})
    socket.write(`HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accepted}\r\n\r\n`)
  })
  const { port } = ended.use(await serveSockets(server))
  site = `http://host.cob.internal:${port}`
  ;({ session, received } = ended.use(await watchedSession(cloud, ['network', 'console'])))
})
beforeEach(() => void (received.all.length = 0))
afterAll(() => ended.disposeAsync())

const at = (path: string) => site + path
const is = (path: string) => (event: Received) => event.data.url === at(path)

describe('requests', () => {
  test('a request and its answer are told with all that the API names', async () => {
    await session.page.goto(at('/empty'))
    const body = JSON.stringify({ user: 'kim', n: 1 })
    await session.page.evaluate(
      `fetch('/json', { method: 'POST', headers: { 'content-type': 'application/json', 'x-own': 'yes' }, body: '${body}' }).then((r) => r.text())`,
    )
    const request = await received.next('network_request', is('/json'))
    const response = await received.next('network_response', is('/json'))
    const target = { target_id: expect.any(String), target_type: 'page', session_id: expect.any(String) }
    const context = { ...target, frame_id: request.data.target_id, loader_id: expect.any(String), nav_seq: expect.any(Number), url: at('/json') }
    expect(request).toMatchObject({ category: 'network', source: { kind: 'cdp', event: 'Network.requestWillBeSent' } })
    expect(request.data).toEqual({
      ...context,
      request_id: expect.any(String),
      method: 'POST',
      document_url: at('/empty'),
      headers: expect.objectContaining({ 'x-own': 'yes', 'content-type': 'application/json' }),
      post_data: body,
      resource_type: 'Fetch',
      initiator_type: 'script',
      is_redirect: false,
    })
    expect(response.data).toEqual({
      ...context,
      request_id: request.data.request_id,
      method: 'POST',
      status: 200,
      status_text: 'OK',
      mime_type: 'application/json',
      headers: expect.objectContaining({ 'content-type': 'application/json' }),
      resource_type: 'Fetch',
      body: JSON.stringify(json).slice(0, 8192),
    })
    expect(response).toMatchObject({ truncated: true, source: { kind: 'cdp', event: 'Network.loadingFinished' } })
    expect(response.seq).toBeGreaterThan(request.seq)
    const document = await received.next('network_response', is('/empty'))
    expect(document.data).toMatchObject({ resource_type: 'Document', status: 200, body: PAGES['/empty'] })
    expect(document.truncated).toBeUndefined()
    // The page has finished loading.
    const idle = await received.next('network_idle', ({ seq }) => seq > response.seq)
    expect(idle.data).toEqual({ ...target, frame_id: request.data.target_id, loader_id: expect.any(String), nav_seq: expect.any(Number), url: at('/empty') })
    expect(idle.ts - response.ts).toBeGreaterThan(400_000)
  })

  test('bodies are cut to 8 KB of JSON, XML and forms, and 4 KB of other text; binary and very long ones are left out, and so are long posts', async () => {
    await session.page.goto(at('/empty'))
    const get = (path: string, as = 'arrayBuffer') => session.page.evaluate(`fetch('${path}').then((r) => r.${as}()).then(() => {})`)
    for (const path of ['/xml', '/form', '/text', '/image', '/long', '/nothing']) await get(path)
    await get('/text?blob', 'blob')
    const lengthOf = async (path: string) => {
      const { data, truncated } = await received.next('network_response', is(path))
      return [data.body === undefined ? undefined : Buffer.byteLength(data.body as string), truncated]
    }
    expect(await lengthOf('/xml')).toEqual([8192, true])
    expect(await lengthOf('/form')).toEqual([8192, true])
    expect(await lengthOf('/text')).toEqual([4096, true])
    expect(await lengthOf('/image')).toEqual([undefined, undefined])
    expect(await lengthOf('/long')).toEqual([undefined, true])
    // Chromium does not keep the body of a blob.
    expect(await lengthOf('/text?blob')).toEqual([undefined, true])
    expect(await lengthOf('/nothing')).toEqual([undefined, undefined])
    const post = (path: string, body: string) => session.page.evaluate(`fetch('${path}', { method: 'POST', body: ${body} }).then((r) => r.text())`)
    await post('/posted', `'z'.repeat(20_000)`)
    await post('/posted-long', `'z'.repeat(500_000)`)
    await post('/posted-bytes', 'new Uint8Array([0, 255, 254, 1])')
    const posted = async (path: string) => {
      const { data, truncated } = await received.next('network_request', is(path))
      return [(data.post_data as string | undefined)?.length, truncated]
    }
    expect(await posted('/posted')).toEqual([8192, true])
    expect(await posted('/posted-long')).toEqual([undefined, true])
    expect(await posted('/posted-bytes')).toEqual([undefined, undefined])
  })

  test('each hop of a redirect has its request and its answer', async () => {
    await session.page.goto(at('/empty'))
    await session.page.evaluate(`fetch('/hop').then((r) => r.text())`)
    await received.next('network_response', is('/json'))
    const [{ data: first }] = [await received.next('network_request', is('/hop'))]
    const steps = received.all.filter(({ data }) => data.request_id === first.request_id)
    expect(steps.map(({ type, data }) => [type, data.url, data.status, data.redirect_url])).toEqual([
      ['network_request', at('/hop'), undefined, undefined],
      ['network_response', at('/hop'), 302, undefined],
      ['network_request', at('/hop2'), undefined, at('/hop')],
      ['network_response', at('/hop2'), 307, undefined],
      ['network_request', at('/json'), undefined, at('/hop2')],
      ['network_response', at('/json'), 200, undefined],
    ])
    expect(steps.map(({ data }) => data.is_redirect)).toEqual([false, undefined, true, undefined, true, undefined])
  })

  test('a request that fails is told with its reason, and one that its page has given up as canceled', async () => {
    await session.page.goto(at('/empty'))
    await session.page.evaluate(`fetch('/hang-up').catch(() => {})`)
    const failed = await received.next('network_loading_failed', is('/hang-up'))
    expect(failed.data).toMatchObject({ error_text: 'net::ERR_EMPTY_RESPONSE', canceled: false, resource_type: 'Fetch', frame_id: failed.data.target_id })
    await session.page.evaluate(`{ const c = new AbortController(); fetch('/never', { signal: c.signal }).catch(() => {}); setTimeout(() => c.abort(), 100) }`)
    const canceled = await received.next('network_loading_failed', is('/never'))
    expect(canceled.data).toMatchObject({ error_text: 'net::ERR_ABORTED', canceled: true })
    const request = await received.next('network_request', is('/never'))
    expect(canceled.data.request_id).toBe(request.data.request_id)
  })

  test('what frames in other processes and workers ask for is told, and so are sockets and event streams, whose end nobody waits for', async () => {
    await session.page.goto(at('/kinds'))
    for (const [path, type] of [
      ['/text?frame', 'iframe'],
      ['/text?worker', 'worker'],
      ['/text?shared', 'shared_worker'],
    ] as const) {
      expect((await received.next('network_request', is(path))).data).toMatchObject({ target_type: type, method: 'GET', resource_type: 'Fetch' })
      if (type !== 'iframe') expect((await received.next('network_response', is(path))).data).toMatchObject({ target_type: type, status: 200 })
    }
    for (const [line, type] of [
      ['in a frame', 'iframe'],
      ['in a worker', 'worker'],
      ['in a shared worker', 'shared_worker'],
    ])
      expect((await received.next('console_log', ({ data }) => data.text === line)).data.target_type).toBe(type)
    // The page sends these requests; the process that uses the result reports the response.
    for (const path of ['/frame', '/worker.js', '/shared.js']) {
      const request = await received.next('network_request', is(path))
      expect((await received.next('network_response', is(path))).data).toMatchObject({ request_id: request.data.request_id, status: 200 })
    }
    const socket = await received.next('network_response', ({ data }) => data.resource_type === 'WebSocket')
    expect(socket.data).toMatchObject({ status: 101, method: 'GET', url: `${site.replace('http', 'ws')}/socket?token=[redacted]` })
    const opened = await received.next('network_request', ({ data }) => data.request_id === socket.data.request_id)
    expect(opened.data).toMatchObject({ resource_type: 'WebSocket', url: socket.data.url })
    const stream = await received.next('network_response', is('/events'))
    expect(stream.data).toMatchObject({ resource_type: 'EventSource', mime_type: 'text/event-stream', status: 200 })
    expect(stream.data).not.toHaveProperty('body')
    expect((await received.next('network_idle', is('/kinds'))).data).toMatchObject({ url: at('/kinds'), target_type: 'page' })
  })

  test('what the session does not reach, because its proxy or its list of hosts forbids it, is a proxy error', async () => {
    await using made = await watchedSession(cloud, ['network'], { network: { allowed_hosts: ['allowed.test'] } })
    const { session, received } = made
    await session.page.goto('http://forbidden.test/path').catch(() => {})
    const { data } = await received.next('proxy_error')
    expect(data).toMatchObject({ code: 'network_policy_denied', status: 403, method: 'GET', resource_type: 'Document', url: 'http://forbidden.test/path' })
    expect((await received.next('network_response', ({ data: { request_id } }) => request_id === data.request_id)).data.status).toBe(403)
    // Chromium does not report the proxy's answer to CONNECT.
    await session.page.goto('https://forbidden.test/path').catch(() => {})
    const tunnel = await received.next('proxy_error', ({ data: { url } }) => url === 'https://forbidden.test/path')
    expect(tunnel.data).toMatchObject({ code: 'unknown', raw_code: 'err_tunnel_connection_failed', status: 502 })
  })
})

describe('the console', () => {
  test('calls are told with their arguments as texts, and exceptions with where they were thrown', async () => {
    await session.page.goto(at('/console'))
    const log = await received.next('console_log')
    expect(log).toMatchObject({ source: { kind: 'cdp', event: 'Runtime.consoleAPICalled' }, category: 'console' })
    expect(log.data).toMatchObject({
      level: 'warning',
      text: 'first',
      args: ['first', '{a: 1, b: Array(2)}', '[3, "x"]', 'null', 'undefined', '12', 'NaN'],
      target_type: 'page',
      url: at('/console'),
    })
    const frame = { functionName: '', scriptId: expect.any(String), url: at('/console'), lineNumber: expect.any(Number), columnNumber: expect.any(Number) }
    expect(log.data.stack_trace).toMatchObject({ callFrames: [frame] })
    const error = await received.next('console_error', ({ source }) => source.event === 'Runtime.consoleAPICalled')
    expect(error.data).toMatchObject({ level: 'error', text: 'bad', args: ['bad', expect.stringContaining('Error: why')] })
    const thrown = await received.next('console_error', ({ data }) => data.text === 'Uncaught TypeError: boom')
    expect(thrown.data).toMatchObject({ line: expect.any(Number), column: expect.any(Number), stack_trace: { callFrames: [{ functionName: 'late' }] } })
    expect(thrown.data).not.toHaveProperty('level')
    await received.next('console_error', ({ data }) => data.text === 'Uncaught (in promise) RangeError: later')
    const long = await received.next('console_log', ({ data }) => data.level === 'info')
    expect([(long.data.text as string).length, long.truncated]).toEqual([4096, true])
  })

  test('what was written before it is captured is not told', async () => {
    await using made = await watchedSession(cloud, ['network'])
    const { session, received } = made
    await session.page.goto(at('/empty'))
    await session.page.evaluate(`console.log('before')`)
    await cloud.client.browsers.update(session.id, { telemetry: { browser: { console: { enabled: true } } } } as never)
    await session.page.evaluate(`console.log('after')`)
    await received.next('console_log', ({ data }) => data.text === 'after')
    expect(received.of('console_log').map(({ data }) => data.text)).toEqual(['after'])
    await cloud.client.browsers.update(session.id, { telemetry: { browser: { console: { enabled: false } } } } as never)
    await session.page.evaluate(`console.log('too late'); fetch('/json?last').then((r) => r.text())`)
    await received.next('network_response', is('/json?last'))
    expect(received.of('console_log')).toHaveLength(1)
  })
})

test('secrets in headers, addresses, bodies, posts and lines of the console never appear', async () => {
  await using made = await watchedSession(cloud, ['network', 'console', 'page'])
  const { session, received } = made
  await session.page.goto(at(`/empty?access_token=${CANARY}#id_token=${CANARY}`))
  await session.page.evaluate(`(async () => {
    const secret = '${CANARY}'
    const login = { method: 'POST', headers: { authorization: 'Bearer ' + secret, 'x-api-key': secret, 'content-type': 'application/json' } }
    await fetch('/secret', { ...login, body: JSON.stringify({ user: 'kim', password: secret, deep: [{ clientSecret: secret }] }) }).then((r) => r.text())
    await fetch('/form', { method: 'POST', body: new URLSearchParams({ user: 'kim', password: secret }) }).then((r) => r.text())
    const form = new FormData()
    form.set('password', secret)
    await fetch('/xml', { method: 'POST', body: form }).then((r) => r.text())
    await fetch('/echo?session=' + secret).then((r) => r.text())
    console.log('token:', secret)
    console.log('sent Authorization: Bearer ' + secret, { password: secret, nested: JSON.stringify({ apiKey: secret }) })
    console.error('failed: https://kim:' + secret + '@example.test/?password=' + secret)
    document.cookie = 'sid=' + secret
    console.log(document.cookie)
    setTimeout(() => { throw new Error('password=' + secret) })
    console.log('done')
  })()`)
  await received.next('console_error', ({ data }) => data.text === 'Uncaught Error: password=[redacted]')
  await received.next('network_response', is('/echo?session=[redacted]'))
  await received.next('console_log', ({ data }) => data.text === 'done')
  await received.next('network_idle')
  expect(received.all.filter((event) => JSON.stringify(event).includes(CANARY))).toEqual([])
  // The rest of the event, around the secrets, is there.
  expect((await received.next('network_request', is('/secret'))).data).toMatchObject({
    post_data: '{"user":"kim","password":"[redacted]","deep":[{"clientSecret":"[redacted]"}]}',
    headers: expect.objectContaining({ authorization: '[redacted]', 'x-api-key': '[redacted]' }),
  })
  expect((await received.next('network_response', is('/secret'))).data).toMatchObject({
    body: '{"user":"kim","access_token":"[redacted]","nested":{"refreshToken":"[redacted]"}}',
    headers: expect.objectContaining({ 'x-auth-token': '[redacted]' }),
  })
  expect((await received.next('network_request', is('/form'))).data.post_data).toBe('user=kim&password=[redacted]')
})
