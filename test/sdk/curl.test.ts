// A session's browser makes HTTP requests through the published SDK: the curl call and browsers.fetch.
import Kernel from '@onkernel/sdk'
import { createHash, randomBytes } from 'node:crypto'
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http'
import { gzipSync } from 'node:zlib'
import puppeteer from 'puppeteer-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { sleep, until, within } from '../../src/base/wait.ts'
import type { Cloud } from '../support/cloud.ts'
import { conforms } from '../support/contract.ts'
import { agentOf, chromiumOf, processesOf, runInside } from '../support/inside.ts'
import { amount } from '../support/long.ts'
import { openSession, type Session } from '../support/session.ts'
import { shareCloud } from '../support/shared-cloud.ts'
import { serveSockets } from '../support/upstreams.ts'

const BIG = randomBytes(1024 * 1024)
const BIG_MB = 50
/** The limit for the other end to notice that a request or a target was released. */
const LET_GO_MS = 20_000

let cloud: Cloud
let session: Session
let base: string
/** The requests that arrived: method and path. */
const came: string[] = []
let dropped = 0
/** Sends the next event of the newest stream that waits for one. */
let tell = () => {}

const answers: Record<string, (request: IncomingMessage, response: ServerResponse, url: URL) => unknown> = {
  echo: async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const body = Buffer.concat(chunks)
    response.setHeader('content-type', 'application/json').setHeader('x-twice', ['1', '2'])
    const { method, headers, rawHeaders } = request
    const names = rawHeaders.filter((_, i) => i % 2 === 0)
    response.end(JSON.stringify({ method, headers, names, sha: sha(body), text: body.toString().slice(0, 100) }))
  },
  blank: (_request, response) => response.setHeader('content-type', 'text/html').end('<title>blank</title>'),
  page: (_request, response) => response.setHeader('content-type', 'text/html').end('<title>page</title><script>fetch("/ran")</script>'),
  set: (_request, response) => response.setHeader('set-cookie', ['jar=from-curl; Path=/', 'hidden=1; HttpOnly; Path=/']).end('set'),
  status: (_request, response, url) => response.writeHead(Number(url.searchParams.get('code')), { 'x-should-retry': 'false' }).end('as you wish'),
  redirect: (_request, response, url) => response.writeHead(Number(url.searchParams.get('code') ?? 302), { location: url.searchParams.get('to')! }).end(),
  gzip: (_request, response) =>
    response
      .setHeader('content-encoding', 'gzip')
      .setHeader('content-type', 'text/plain')
      .end(gzipSync('zipped '.repeat(1000))),
  file: (_request, response) =>
    response.setHeader('content-disposition', 'attachment; filename=file.bin').setHeader('content-type', 'application/octet-stream').end(BIG),
  login: (_request, response) => response.writeHead(401, { 'www-authenticate': 'Basic realm="x"' }).end('who?'),
  cached: (_request, response) => response.setHeader('cache-control', 'max-age=600').end(String(Math.random())),
  hang: (request) => request.socket.on('close', () => dropped++),
  cut: (_request, response) => {
    response.setHeader('content-type', 'application/octet-stream').write(Buffer.alloc(100_000))
    setTimeout(() => response.destroy(), 50)
  },
  big: (_request, response) => {
    response.setHeader('content-type', 'application/octet-stream')
    let left = BIG_MB
    const more = (): void => {
      while (left > 0) {
        left--
        if (!response.write(BIG)) return void response.once('drain', more)
      }
      response.end()
    }
    response.on('close', () => !response.writableFinished && dropped++)
    more()
  },
  drip: (_request, response, url) => {
    response.setHeader('content-type', url.searchParams.get('type') ?? 'text/event-stream')
    let sent = 0
    const timer = setInterval(() => response.write(`data: ${sent++} é\n\n`), 50)
    response.on('close', () => {
      clearInterval(timer)
      dropped++
    })
  },
  asked: (_request, response) => {
    let sent = 0
    tell = () => response.write(`data: ${sent++} é\n\n`)
    response.setHeader('content-type', 'text/event-stream').on('close', () => dropped++)
    tell()
  },
}

const sha = (body: Buffer): string => createHash('sha256').update(body).digest('hex')

const ended = new AsyncDisposableStack()
beforeAll(async () => {
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? '/', 'http://localhost')
    came.push(`${request.method} ${request.url}`)
    void (answers[url.pathname.slice(1)] ?? (() => response.writeHead(404).end()))(request, response, url)
  })
  base = `http://host.cob.internal:${ended.use(await serveSockets(server)).port}`
  cloud = ended.use(await shareCloud())
  session = ended.use(await openSession(cloud, { timeout_seconds: 600 }))
  await session.page.goto(`${base}/blank`)
})
afterAll(() => ended.disposeAsync())

type Params = Parameters<Kernel['browsers']['curl']>[1]
async function curl(path: string, options: Omit<Params, 'url'> = {}) {
  const done = await cloud.client.browsers.curl(session.id, { url: /^\w+:/.test(path) ? path : `${base}/${path}`, ...options })
  conforms('BrowserCurlResponse', done)
  return done
}
type Echo = { method: string; headers: IncomingHttpHeaders; names: string[]; sha: string; text: string }
const echo = async (options: Omit<Params, 'url'> = {}, path = 'echo'): Promise<Echo> => JSON.parse((await curl(path, options)).body) as Echo
const fetchBy = (path: string, init: RequestInit & { timeout_ms?: number } = {}) =>
  cloud.client.browsers.fetch(session.id, `${base}/${path}`, init as never) as Promise<Response>

/** Counts the targets that curl itself uses (neither pages nor tabs of the user), and closes them on request. */
async function targets(close = false): Promise<number> {
  const cdp = await session.browser.newBrowserCDPSession()
  const found = (await cdp.send('Target.getTargets', { filter: [{}] })).targetInfos.filter(({ type }) => type === 'other')
  for (const { targetId } of close ? found : []) await cdp.send('Target.closeTarget', { targetId })
  await cdp.detach()
  return found.length
}

describe('a curl request', () => {
  test('looks like one of the browser’s own: user agent, languages, encodings, order of headers', async () => {
    const page = await session.page.goto(`${base}/echo`)
    const own = (await page!.json()) as Echo
    const ours = await echo()
    // The headers are equal to those of a page that a user opens.
    expect(ours.names).toEqual(own.names)
    expect(ours.headers).toEqual(own.headers)
    expect(ours.headers['user-agent']).toMatch(/Mozilla.*Chrome/)
    // When the caller adds headers, the others keep their order.
    expect((await echo({ headers: { 'X-Mine': 'x' } })).names.filter((name) => name !== 'X-Mine')).toEqual(own.names)
  })

  test('to a secure origin also has the client hints and fetch metadata', async () => {
    const serve = `require('http').createServer((q, r) => r.end(JSON.stringify(q.rawHeaders))).listen(7777, '127.0.0.1')`
    await runInside(
      cloud,
      session.id,
      `setsid nohup /opt/node/node -e "${serve}" >/dev/null 2>&1 & for i in $(seq 100); do (exec 3<>/dev/tcp/127.0.0.1/7777) 2>/dev/null && break; sleep 0.1; done`,
    )
    const [plain, given] = await Promise.all([{}, { headers: { 'X-Mine': 'x' } }].map((options) => curl('http://127.0.0.1:7777/', options)))
    const names = (JSON.parse(plain!.body) as string[]).filter((_, i) => i % 2 === 0)
    expect(names).toEqual(expect.arrayContaining(['sec-ch-ua', 'sec-ch-ua-platform', 'Sec-Fetch-Mode', 'Sec-Fetch-Dest']))
    expect((JSON.parse(given!.body) as string[]).filter((name, i) => i % 2 === 0 && name !== 'X-Mine')).toEqual(names)
  })

  test('has method, headers and body of the caller, in addition to the browser’s', async () => {
    for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'] as const)
      expect(await echo({ method, headers: { 'X-Mine': 'ü', 'User-Agent': 'Mine/1' }, ...(method !== 'GET' && { body: 'hällo' }) })).toMatchObject({
        method,
        headers: { 'x-mine': Buffer.from('ü').toString('latin1'), 'user-agent': 'Mine/1', accept: expect.stringContaining('text/html') },
        text: method === 'GET' ? '' : 'hällo',
      })
    expect(await curl('echo', { method: 'HEAD' })).toMatchObject({ status: 200, body: '', headers: { 'Content-Type': ['application/json'] } })
  })

  test('shares cookies with the pages, in both directions', async () => {
    await session.page.goto(`${base}/blank`)
    await session.page.evaluate(`void (document.cookie = 'page=set-by-page; path=/; samesite=strict')`)
    expect((await echo()).headers.cookie).toContain('page=set-by-page')
    expect((await curl('set')).headers['Set-Cookie']).toEqual(['jar=from-curl; Path=/', 'hidden=1; HttpOnly; Path=/'])
    expect(await session.page.evaluate<string>('document.cookie')).toContain('jar=from-curl')
    expect((await session.browser.contexts()[0]!.cookies()).map(({ name }) => name)).toEqual(expect.arrayContaining(['jar', 'hidden', 'page']))
    const cookie = (await echo({ headers: { Cookie: 'page=mine; more=1' } })).headers.cookie!
    expect(cookie.split('; ').toSorted()).toEqual(['hidden=1', 'jar=from-curl', 'more=1', 'page=mine'])
  })

  test('follows redirects like the browser, and sends the caller’s headers only where they belong', async () => {
    const options = { method: 'POST', body: 'x', headers: { 'Content-Type': 'text/x', 'X-Mine': 'x', Authorization: 'secret' } } as const
    const found = await echo(options, `redirect?to=/echo`)
    expect(found).toMatchObject({ method: 'GET', text: '', headers: { 'x-mine': 'x', authorization: 'secret' } })
    expect(found.headers).not.toHaveProperty('content-type')
    expect(await echo(options, `redirect?code=307&to=/echo`)).toMatchObject({ method: 'POST', text: 'x', headers: { 'content-type': 'text/x', 'x-mine': 'x' } })
    const elsewhere = await echo(options, `redirect?code=308&to=${encodeURIComponent('http://127.0.0.1:7777/')}`).catch(() => undefined)
    expect(JSON.stringify(elsewhere ?? '')).not.toContain('secret')
  })

  test('returns the target’s own errors as data', async () => {
    for (const code of [204, 304, 400, 404, 418, 500, 503, 999]) expect((await curl(`status?code=${code}`)).status).toBe(code)
    expect(await curl('nothing')).toMatchObject({ status: 404, body: '' })
    expect(await curl('login')).toMatchObject({ status: 401, body: 'who?' })
  })

  test('returns decoded text, bytes as base64, and files without downloading them', async () => {
    expect((await curl('gzip')).body).toBe('zipped '.repeat(1000))
    const file = await curl('file', { response_encoding: 'base64' })
    expect(sha(Buffer.from(file.body, 'base64'))).toBe(sha(BIG))
    expect((await runInside(cloud, session.id, 'ls ~/Downloads')).output).toBe('')
  })

  test('shows nothing and runs nothing: no page, no script, no icon', async () => {
    const pages = session.browser.contexts()[0]!.pages().length
    const other = await puppeteer.connect({ browserWSEndpoint: session.made.cdp_ws_url, defaultViewport: null })
    came.length = 0
    expect((await curl('page')).body).toContain('<script>')
    await new Promise((resolve) => setTimeout(resolve, 300))
    expect(came.filter((request) => /ran|favicon/.test(request))).toEqual([])
    expect([session.browser.contexts()[0]!.pages().length, (await other.pages()).length]).toEqual([pages, pages])
    await other.disconnect()
  })

  test('uses the browser’s cache', async () => {
    expect((await curl('cached')).body).toBe((await curl('cached')).body)
  })
})

describe('a curl request that fails', () => {
  test.each([
    ['file:///etc/passwd', 400, 'url'],
    ['chrome://version', 400, 'url'],
    ['javascript:alert(1)', 400, 'url'],
    ['http://', 400, 'url'],
    ['http://127.0.0.1:1/', 400, 'ERR_UNSAFE_PORT'],
    ['http://none.invalid/', 502, 'ERR_NAME_NOT_RESOLVED'],
    ['http://127.0.0.1:4/', 502, 'ERR_CONNECTION_REFUSED'],
    ['redirect?to=file:///etc/passwd', 502, 'file:'],
    ['redirect?to=chrome://version', 502, 'chrome:'],
    ['redirect?to=mailto:a@b.c', 502, 'mailto:'],
    ['redirect?to=/redirect?to=http://none.invalid/', 502, 'ERR_NAME_NOT_RESOLVED'],
    ['cut', 502, 'broke off'],
    ['big', 502, '/curl/raw'],
  ])('to %s answers %d with the reason, and is sent once', async (path, status, reason) => {
    const retrying = cloud.client.withOptions({ maxRetries: 2 })
    came.length = 0
    const url = /^\w+:/.test(path) ? path : `${base}/${path}`
    await expect(retrying.browsers.curl(session.id, { url })).rejects.toMatchObject({ status, message: expect.stringContaining(reason) })
    expect(new Set(came).size).toBe(came.length)
  })

  test('with invalid headers, or headers that only the browser can set, answers 400 that names them', async () => {
    for (const name of ['Host', 'Content-Length', 'Proxy-Authorization', 'a b', 'x:y'])
      await expect(curl('echo', { headers: { [name]: 'x' } })).rejects.toMatchObject({ status: 400, message: expect.stringContaining(name) })
    await expect(curl('echo', { headers: { 'X-A': 'a\r\nb: c' } })).rejects.toMatchObject({ status: 400 })
    await expect(curl('echo', { timeout_ms: 0 })).rejects.toMatchObject({ status: 400, message: expect.stringContaining('timeout_ms') })
    await expect(curl('echo', { method: 'TRACE' as never })).rejects.toMatchObject({ status: 400, message: expect.stringContaining('method') })
  })

  test('because of its timeout is ended at the target too', async () => {
    // On a busy machine a request may time out before it leaves the browser. This call creates the hidden page that sends requests first.
    expect((await curl('echo')).status).toBe(200)
    const before = dropped
    came.length = 0
    await expect(curl('hang', { timeout_ms: 1_000 })).rejects.toMatchObject({ status: 504 })
    await expect(curl('drip', { timeout_ms: 1_000 })).rejects.toMatchObject({ status: 504 })
    expect(came).toHaveLength(2)
    await until('the target to be let go', LET_GO_MS, () => dropped >= before + 2, { everyMs: 20 })
  })

  test('because its caller left is ended at the target too, and leaves no hidden page busy', async () => {
    const before = dropped
    came.length = 0
    const left = new AbortController()
    const waiting = Promise.allSettled([
      ...Array.from({ length: 12 }, (_, i) => cloud.client.browsers.curl(session.id, { url: `${base}/hang?${i}` }, { signal: left.signal })),
      fetchBy('big', { signal: left.signal }),
    ])
    await until('some to be at the target', 10_000, () => came.filter((request) => request.includes('/hang')).length >= 4, { everyMs: 20 })
    left.abort()
    expect((await waiting).filter(({ status }) => status === 'fulfilled').length).toBeLessThanOrEqual(1)
    await until('the target to be let go', LET_GO_MS, () => dropped > before, { everyMs: 20 })
    await until('the hidden pages to go', LET_GO_MS, async () => (await targets()) <= 1, { everyMs: 50 })
    expect((await curl('echo')).status).toBe(200)
  })
})

describe('browsers.fetch', () => {
  test('returns a Response with status, headers and body of the target, over the session’s own address and token', async () => {
    const urls: string[] = []
    const client = new Kernel({
      apiKey: cloud.key,
      baseURL: cloud.url,
      fetch: (input, init) => {
        urls.push(String(input instanceof Request ? input.url : input))
        expect(new Headers((init as RequestInit).headers).has('authorization')).toBe(urls.length === 1)
        return fetch(input, init)
      },
    })
    await client.browsers.retrieve(session.id)
    const response = (await client.browsers.fetch(session.id, `${base}/echo?a=1&b=%20`, {
      method: 'POST',
      body: Buffer.from('hällo'),
      headers: { 'X-Mine': 'x' },
    } as never)) as Response
    expect(urls[1]).toMatch(/\/browser\/session\/\w+\/curl\/raw\?.*jwt=/)
    expect(response.headers.get('x-twice')).toBe('1, 2')
    const seen = (await response.json()) as Echo
    expect(seen).toMatchObject({ method: 'POST', text: 'hällo', headers: { 'x-mine': 'x' } })
    expect(seen.headers['user-agent']).toMatch(/Mozilla.*Chrome/)
    expect(Object.keys(seen.headers).filter((name) => /stainless|forwarded|request-id|authorization|jwt/.test(name))).toEqual([])
    expect(seen.headers.host).toBe(new URL(base).host)
  })

  test('streams 50 MB byte for byte, and the agent does not hold them in memory', async () => {
    const rss = () => Number(/^VmRSS:\s+(\d+)/m.exec(processesOf(cloud, session.id).find(({ pid }) => pid === agentOf(cloud, session.id))!.status)![1]) / 1024
    const before = rss()
    const hash = createHash('sha256')
    let most = 0
    let chunks = 0
    for await (const chunk of (await fetchBy('big')).body!) {
      hash.update(chunk)
      if (++chunks % 100 === 0) most = Math.max(most, rss())
    }
    const expected = createHash('sha256')
    for (let i = 0; i < BIG_MB; i++) expected.update(BIG)
    expect(hash.digest('hex')).toBe(expected.digest('hex'))
    expect(most - before).toBeLessThan(60)
  })

  test('sends bytes, and handles redirects, encodings and cookies like fetch', async () => {
    const bytes = randomBytes(5_000_000)
    expect((await (await fetchBy('echo', { method: 'PUT', body: bytes })).json()) as Echo).toMatchObject({ method: 'PUT', sha: sha(bytes) })
    expect(((await (await fetchBy('redirect?to=/echo')).json()) as Echo).method).toBe('GET')
    const zipped = await fetchBy('gzip')
    expect([zipped.headers.get('content-encoding'), await zipped.text()]).toEqual([null, 'zipped '.repeat(1000)])
    expect((await fetchBy('set')).headers.getSetCookie()).toHaveLength(2)
    expect(((await (await fetchBy('echo', { headers: { Cookie: 'mine=1' } })).json()) as Echo).headers.cookie).toContain('mine=1')
    const raw = `/browsers/${session.id}/curl/raw?url=${encodeURIComponent(`${base}/echo`)}`
    expect(((await (await cloud.fetch(raw)).json()) as Echo).headers.authorization).toBeUndefined() // the service must not forward the API key
    const theirs = await fetch(`${cloud.url}${raw}&${new URL(session.made.cdp_ws_url).search.slice(1)}`, { headers: { authorization: 'Basic bWU6aXQ=' } })
    expect(((await theirs.json()) as Echo).headers.authorization).toBe('Basic bWU6aXQ=')
  })

  test('turns the target’s errors into errors of the SDK, with the target’s status', async () => {
    await expect(fetchBy('status?code=404')).rejects.toMatchObject({ status: 404 })
    await expect(fetchBy('status?code=503')).rejects.toMatchObject({ status: 503 })
    expect((await cloud.fetch(`/browsers/${session.id}/curl/raw?url=${encodeURIComponent(`${base}/status?code=999`)}`)).status).toBe(999)
  })

  test('reports an answer that breaks off, one that stalls, and one that never comes', async () => {
    await expect((await fetchBy('cut')).arrayBuffer()).rejects.toThrow()
    await expect(fetchBy('hang', { timeout_ms: 200 })).rejects.toMatchObject({ status: 504 })
    await expect(cloud.client.browsers.fetch(session.id, 'http://none.invalid/', {} as never)).rejects.toMatchObject({
      status: 502,
      message: expect.stringContaining('ERR_NAME_NOT_RESOLVED'),
    })
  })

  test('reads a stream while it arrives, for longer than its timeout', async () => {
    const response = await fetchBy('asked', { timeout_ms: 1_000 })
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader()
    expect(response.headers.get('content-type')).toBe('text/event-stream')
    let text = ''
    let expected = ''
    // The server sends an event only after the previous one was read, so a buffered event would block the loop.
    for (let event = 0; event < 30; event++) {
      expected += `data: ${event} é\n\n`
      while (text.length < expected.length) text += (await within('an event', LET_GO_MS, reader.read())).value
      await sleep(50)
      tell()
    }
    expect(text).toBe(expected)
    const before = dropped
    await reader.cancel()
    await until('the target to be let go', LET_GO_MS, () => dropped > before, { everyMs: 20 })
  })

  test('reads any slow answer until it ends, not only event streams', async () => {
    const reader = (await fetchBy('drip?type=application/json', { timeout_ms: 1_500 })).body!.getReader()
    const began = performance.now()
    for (; performance.now() - began < 4_000;) expect((await reader.read()).done).toBe(false)
    await reader.cancel()
  })

  test('answers a HEAD request once, without a body', async () => {
    came.length = 0
    const response = await cloud.fetch(`/browsers/${session.id}/curl/raw?url=${encodeURIComponent(`${base}/file`)}`, { method: 'HEAD' })
    expect([response.status, response.headers.get('content-disposition')]).toEqual([200, 'attachment; filename=file.bin'])
    expect(came).toHaveLength(1)
  })

  test('does not let an HTML answer act as a page of the service', async () => {
    expect((await fetchBy('page')).headers.get('content-security-policy')).toBe('sandbox')
  })
})

test('30 concurrent curl requests are all answered', async () => {
  const all = await Promise.all(Array.from({ length: 30 }, (_, i) => echo({ method: 'POST', body: `number ${i}` })))
  expect(all.map(({ text }) => text)).toEqual(Array.from({ length: 30 }, (_, i) => `number ${i}`))
})

test('curl reaches nothing on this machine that the session may not reach', async () => {
  await using closed = await shareCloud({ COB_ALLOW_HOST_LOOPBACK: '0' })
  const { session_id: id } = await closed.client.browsers.create({})
  came.length = 0
  const port = new URL(base).port
  for (const host of ['127.0.0.1', 'localhost', '[::1]', '0.0.0.0', 'host.cob.internal', '169.254.169.254'])
    await expect(closed.client.browsers.curl(id, { url: `http://${host}:${port}/echo`, timeout_ms: 3_000 })).rejects.toMatchObject({
      status: expect.toBeOneOf([502, 504]),
    })
  await expect(closed.client.browsers.curl(id, { url: `${closed.url}/health`, timeout_ms: 3_000 })).rejects.toMatchObject({
    status: expect.toBeOneOf([502, 504]),
  })
  expect(came).toEqual([])
  await closed.client.browsers.deleteByID(id)
})

test('requests whose hidden page was just closed are sent from another page', async () => {
  const eight = () => Promise.all(Array.from({ length: 8 }, async () => (await curl('echo')).status))
  const cdp = await session.browser.newBrowserCDPSession()
  for (let round = 0; round < amount(6, 15); round++) {
    expect(await eight()).toEqual(Array.from({ length: 8 }, () => 200))
    const hidden = async () => (await cdp.send('Target.getTargets', { filter: [{}] })).targetInfos.filter(({ type }) => type === 'other')
    const before = await hidden()
    expect(before.length).toBeGreaterThan(0)
    await Promise.all(before.map(({ targetId }) => cdp.send('Target.closeTarget', { targetId })))
    // Chromium answers before a page has closed. A request from such a page fails and is not repeated, so wait until the pages are gone.
    await until('the pages to be gone', LET_GO_MS, async () => (await hidden()).length === 0, { everyMs: 1 })
  }
  await cdp.detach()
})

test.each([
  ['a client closes the hidden pages', () => targets(true)],
  ['Chromium crashes', () => process.kill(chromiumOf(cloud, session.id), 'SIGKILL')],
])('if %s, pending requests fail immediately, and the next one works', async (_what, end) => {
  expect((await curl('echo')).status).toBe(200)
  came.length = 0
  const waiting = curl('hang').catch((error: unknown) => error)
  await until('the request to be at the target', LET_GO_MS, () => came.length > 0, { everyMs: 10 })
  await end()
  expect(await waiting).toMatchObject({ status: expect.toBeOneOf([502, 503]) })
  expect((await curl('echo')).status).toBe(200)
})
