// The path of a connection from the port in an instance through a link and the forwarder to a proxy. The browser's bytes are written by hand here, including
// bytes that no browser would send.
import { once } from 'node:events'
import { createServer as createHttp, type IncomingMessage, type ServerResponse } from 'node:http'
import { connect, type Socket } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ProxyListener } from '../agent/egress/listener.ts'
import { SOCKETS } from '../agent/session/contract.ts'
import { httpProxy, serveSockets, socksProxy, tcpServer } from '../../test/support/upstreams.ts'
import { newId } from '../base/ids.ts'
import { silentLog } from '../base/log.ts'
import { isAlive, nameProcess } from '../base/processes.ts'
import { sleep } from '../base/wait.ts'
import { pathTo } from '../http/route.ts'
import { completeHandshake, mountUpgrades } from '../http/upgrade.ts'
import { makeForwarder, type Forwarder } from './forwarder.ts'
import type { Upstream } from './upstream.ts'
import type { Routing } from './routing.ts'

const LOGIN = { username: 'ann', password: 'canary' }
const NAMES = { 'site.test': '127.0.0.1' }
const signal = new AbortController().signal
const make = () => makeForwarder({ allowHostLoopback: true, logLevel: 'silent', log: silentLog })

let forwarder: Forwarder
let site: Awaited<ReturnType<typeof serveSockets>>
/** The requests that reached the site. */
const seen: { method: string; url: string; headers: IncomingMessage['headers']; body: string }[] = []
beforeAll(async () => {
  forwarder = make()
  const answer = async (incoming: IncomingMessage, reply: ServerResponse) => {
    const body = (await incoming.toArray()).join('')
    seen.push({ method: incoming.method!, url: incoming.url!, headers: incoming.headers, body })
    if (incoming.url === '/held') return
    if (incoming.url === '/cut') {
      reply.writeHead(200, { 'content-length': 100 }).write('only this')
      return void setTimeout(() => reply.destroy(), 20)
    }
    reply
      .writeHead(200, {
        'content-length': 4,
        connection: 'keep-alive, x-hop',
        'x-hop': 'a',
        'X-Kernel-Proxy-Error': 'unreachable',
        'x-end': 'b',
        'set-cookie': ['a=1', 'b=2'],
      })
      .end('site')
  }
  site = await serveSockets(createHttp((incoming, reply) => void answer(incoming, reply)))
})
afterAll(async () => {
  await forwarder[Symbol.asyncDispose]()
  await site[Symbol.asyncDispose]()
})

/** The agent's end: its port for the browser, and where the forwarder dials links. */
async function agentOf(id = newId(), linkMs?: number) {
  const listener = new ProxyListener(linkMs)
  const server = createHttp()
  mountUpgrades(server, silentLog, {
    [SOCKETS.links]: async ({ params, socket }) => listener.link(params.key!, socket, () => completeHandshake(socket, { headers: {} })),
  })
  const served = await serveSockets(server)
  const endpoint = { host: '127.0.0.1', port: served.port }
  return {
    id,
    listener,
    endpoint,
    async use(upstream: Partial<Upstream>, by = forwarder, more: Partial<Routing> = {}) {
      const key = newId()
      const exit = {
        id,
        agent: endpoint,
        key,
        path: pathTo(SOCKETS.links, { key }),
        routing: { upstream: { protocol: 'http' as const, host: '127.0.0.1', port: 1, bypassHosts: [], ...upstream }, routes: [], ...more },
      }
      await by.use(exit, signal)
      await listener.open(key)
      return key
    },
    async [Symbol.asyncDispose]() {
      forwarder.forget(id)
      listener.close()
      await served[Symbol.asyncDispose]()
    },
  }
}

/** A connection of a browser. */
function dialTo({ listener }: { listener: ProxyListener }): Socket & { said: () => string } {
  let text = ''
  const socket = connect(listener.port!, '127.0.0.1')
  socket.on('error', () => {}).on('data', (chunk: Buffer) => (text += chunk.toString('latin1')))
  return Object.assign(socket, { said: () => text })
}
/** Returns what is answered to these bytes until the connection ends. */
async function answerTo(to: { listener: ProxyListener }, bytes: string): Promise<string> {
  const socket = dialTo(to)
  socket.write(bytes)
  await once(socket, 'close')
  return socket.said()
}
const get = (path: string, ...headers: string[]) => [`GET http://site.test:${site.port}${path} HTTP/1.1`, 'Host: other.test', ...headers, '', ''].join('\r\n')

describe('plain HTTP', () => {
  test('the password is added to each request of a connection, and goes to the proxy only; what is about the connection goes nowhere', async () => {
    await using proxy = await httpProxy({ login: LOGIN, names: NAMES })
    await using agent = await agentOf()
    await agent.use({ port: proxy.port, ...LOGIN })
    seen.length = 0
    const socket = dialTo(agent)
    const hop = ['Proxy-Connection: keep-alive', 'Proxy-Authorization: Basic bWU6bWU=', 'Connection: x-mine', 'X-Mine: 1', 'X-Yours: 2']
    for (const path of ['/1?a=b', '/2', '/3']) {
      const before = socket.said().length
      socket.write(get(path, ...hop))
      await expect.poll(() => socket.said().slice(before)).toMatch(/site$/)
    }
    socket.destroy()
    expect(proxy.asked).toEqual(['/1?a=b', '/2', '/3'].map((path) => `GET http://site.test:${site.port}${path}`))
    for (const { headers } of seen) {
      expect(headers).toMatchObject({ host: `site.test:${site.port}`, 'x-yours': '2' })
      for (const name of ['proxy-authorization', 'proxy-connection', 'x-mine']) expect(headers).not.toHaveProperty(name)
    }
    expect(socket.said()).toMatch(/x-end: b/i)
    expect(socket.said()).toMatch(/set-cookie: a=1\r\nset-cookie: b=2/i)
    expect(socket.said()).not.toMatch(/x-hop/i)
  })

  test.each([
    ['with a length', 'Content-Length: 5\r\n\r\nhello'],
    ['in chunks', 'Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n'],
  ])('a body %s arrives whole, also through SOCKS5', async (_what, rest) => {
    await using http = await httpProxy({ names: NAMES })
    await using socks = await socksProxy({ names: NAMES })
    await using agent = await agentOf()
    for (const upstream of [{ port: http.port }, { port: socks.port, protocol: 'socks5' as const }]) {
      await agent.use(upstream)
      seen.length = 0
      const said = await answerTo(agent, `POST http://site.test:${site.port}/form HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${rest}`)
      expect(said).toMatch(/^HTTP\/1.1 200 [^]*site$/)
      expect(seen).toMatchObject([{ method: 'POST', url: '/form', body: 'hello' }])
    }
  })

  test('a site cannot pass for the proxy', async () => {
    await using proxy = await httpProxy({ names: NAMES })
    await using agent = await agentOf()
    await agent.use({ port: proxy.port })
    const said = await answerTo(agent, get('/', 'Connection: close'))
    expect(said).toMatch(/^HTTP\/1.1 200 [^]*x-end: b/)
    expect(said).not.toMatch(/x-kernel-proxy-error/i)
  })

  test('an answer that is cut off is cut off for the browser too', async () => {
    await using proxy = await httpProxy({ names: NAMES })
    await using agent = await agentOf()
    await agent.use({ port: proxy.port })
    expect(await answerTo(agent, get('/cut'))).toMatch(/content-length: 100[^]*only this$/i)
  })

  test('a proxy that asks for a password is an error of the proxy: the browser must not ask its user', async () => {
    await using proxy = await httpProxy({ login: LOGIN })
    await using agent = await agentOf()
    await agent.use({ port: proxy.port, ...LOGIN, password: 'wrong' })
    for (const bytes of [get('/', 'Connection: close'), `CONNECT site.test:${site.port} HTTP/1.1\r\nHost: x\r\n\r\n`]) {
      const said = await answerTo(agent, bytes)
      expect(said).toMatch(/^HTTP\/1.1 502 Bad Gateway\r\n/)
      expect(said).toMatch(/X-Kernel-Proxy-Error: credentials/)
      expect(said).not.toMatch(/proxy-authenticate/i)
    }
  })

  test.each([
    ['a request as to a site', 'GET / HTTP/1.1\r\nHost: x\r\n\r\n'],
    ['an https URL', 'GET https://site.test/ HTTP/1.1\r\nHost: x\r\n\r\n'],
    ['two lengths', 'POST http://site.test/ HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!'],
    ['a length and chunks', 'POST http://site.test/ HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET'],
    ['no HTTP', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03'],
    ['a head without an end', `GET http://site.test/ HTTP/1.1\r\nX: ${'x'.repeat(300_000)}`],
    ['a tunnel to no port', 'CONNECT site.test HTTP/1.1\r\nHost: x\r\n\r\n'],
    ['a tunnel to port 0', 'CONNECT site.test:0 HTTP/1.1\r\nHost: x\r\n\r\n'],
    ['a tunnel to a user', 'CONNECT a@site.test:80 HTTP/1.1\r\nHost: x\r\n\r\n'],
  ])('%s gets no answer, and reaches no proxy', async (_what, bytes) => {
    await using proxy = await httpProxy({ names: NAMES })
    await using agent = await agentOf()
    await agent.use({ port: proxy.port })
    expect(await answerTo(agent, bytes)).toBe('')
    expect(proxy.asked).toEqual([])
  })
})

test('a tunnel carries bytes both ways, those too that come with the request, and hosts on the list of exceptions take none', async () => {
  await using echo = await tcpServer((socket) => void socket.pipe(socket))
  await using proxy = await httpProxy({ names: NAMES, login: LOGIN })
  await using agent = await agentOf()
  await agent.use({ port: proxy.port, ...LOGIN, bypassHosts: ['localhost'] })
  for (const host of ['site.test', 'localhost']) {
    const socket = dialTo(agent)
    socket.write(`CONNECT ${host}:${echo.port} HTTP/1.1\r\nHost: x\r\n\r\nearly`)
    await expect.poll(socket.said).toBe('HTTP/1.1 200 OK\r\n\r\nearly')
    socket.write(' late')
    await expect.poll(socket.said).toBe('HTTP/1.1 200 OK\r\n\r\nearly late')
    socket.destroy()
  }
  expect(proxy.asked).toEqual([`CONNECT site.test:${echo.port}`])
  await expect.poll(echo.open).toBe(0)
})

test('many connections at once each get a link', async () => {
  await using proxy = await httpProxy({ names: NAMES })
  await using agent = await agentOf()
  await agent.use({ port: proxy.port })
  const all = await Promise.all(Array.from({ length: 60 }, () => answerTo(agent, get('/', 'Connection: close'))))
  expect(all.filter((said) => !said.endsWith('site'))).toEqual([])
})

test('another proxy ends the connections through the one before, and all that follow go through the new one', async () => {
  await using echo = await tcpServer((socket) => void socket.pipe(socket))
  await using first = await httpProxy({ names: NAMES })
  await using second = await httpProxy({ names: NAMES })
  await using agent = await agentOf()
  await agent.use({ port: first.port })
  const socket = dialTo(agent)
  socket.write(`CONNECT site.test:${echo.port} HTTP/1.1\r\nHost: x\r\n\r\n`)
  await expect.poll(socket.said).toMatch(/200/)
  await agent.use({ port: second.port })
  await expect.poll(() => socket.destroyed).toBe(true)
  await expect.poll(() => [first.open(), echo.open()]).toEqual([0, 0])
  await answerTo(agent, get('/', 'Connection: close'))
  expect([first.asked.length, second.asked.length]).toEqual([1, 1])
})

test('a browser that leaves takes its connection to a silent proxy with it', async () => {
  await using proxy = await tcpServer((socket) => void socket.resume())
  await using agent = await agentOf()
  await agent.use({ port: proxy.port })
  for (const bytes of [get('/'), `CONNECT site.test:1 HTTP/1.1\r\nHost: x\r\n\r\n`]) {
    const socket = dialTo(agent)
    socket.write(bytes)
    await expect.poll(proxy.open).toBe(1)
    socket.destroy()
    await expect.poll(proxy.open, { timeout: 8_000 }).toBe(0)
  }
})

describe('the program', () => {
  test('starts with the first session, is started again when it is killed, and ends with the service', async () => {
    await using proxy = await httpProxy({ names: NAMES })
    await using agent = await agentOf()
    const own = make()
    expect(own.pid()).toBeUndefined()
    await agent.use({ port: proxy.port }, own)
    const first = nameProcess(own.pid()!)!
    process.kill(first.pid, 'SIGKILL')
    await expect.poll(own.pid).toBeUndefined()
    // The connection waits for the next one.
    expect(await answerTo(agent, get('/', 'Connection: close'))).toMatch(/site$/)
    const second = nameProcess(own.pid()!)!
    expect(second.pid).not.toBe(first.pid)
    await own[Symbol.asyncDispose]()
    expect(isAlive(second)).toBe(false)
  })

  test('of another service that has given a session its proxy takes over, and the one before stops dialling', async () => {
    await using proxy = await httpProxy({ names: NAMES })
    await using agent = await agentOf()
    await using other = make()
    await agent.use({ port: 1 })
    await agent.use({ port: proxy.port }, other)
    expect(await answerTo(agent, get('/', 'Connection: close'))).toMatch(/site$/)
    // Killed, it would dial again for what it still has. Its next dial has told it that it has nothing.
    const killed = async () => {
      const pid = forwarder.pid()
      if (pid !== undefined) process.kill(pid, 'SIGKILL')
      await new Promise((resolve) => setTimeout(resolve, 500))
      return forwarder.pid()
    }
    await expect.poll(killed, { timeout: 15_000 }).toBeUndefined()
  })
})

test('an agent that takes links and closes them unused is dialled slowly', async () => {
  let dials = 0
  const server = createHttp()
  mountUpgrades(server, silentLog, {
    [SOCKETS.links]: async ({ socket }) => {
      dials++
      completeHandshake(socket, { headers: {} })
      socket.end()
    },
  })
  await using served = await serveSockets(server)
  const id = newId()
  const key = newId()
  const routing = { upstream: { protocol: 'http' as const, host: '127.0.0.1', port: 1, bypassHosts: [] }, routes: [] }
  await forwarder.use({ id, agent: { host: '127.0.0.1', port: served.port }, key, path: pathTo(SOCKETS.links, { key }), routing }, signal)
  await sleep(2_000)
  forwarder.forget(id)
  expect(dials).toBeGreaterThan(8)
  // Without a pause there are some thousands.
  expect(dials).toBeLessThan(300)
})

test('without a link, a request through the proxy gets 502 after a while, and a page that looks for the port gets nothing', async () => {
  await using agent = await agentOf(newId(), 50)
  await agent.listener.open(newId())
  expect(await answerTo(agent, get('/'))).toMatch(/^HTTP\/1.1 502 [^]*X-Kernel-Proxy-Error: unreachable/)
  expect(await answerTo(agent, 'CONNECT site.test:443 HTTP/1.1\r\nHost: x\r\n\r\n')).toMatch(/^HTTP\/1.1 502 /)
  expect(await answerTo(agent, 'GET / HTTP/1.1\r\nHost: x\r\n\r\n')).toBe('')
})

describe('a list of allowed hosts', () => {
  const tunnel = (host: string) => `CONNECT ${host}:${site.port} HTTP/1.1\r\nHost: ${host}:${site.port}\r\n\r\n`
  const REFUSED = /^HTTP\/1\.1 403 Forbidden\r\nX-Kernel-Proxy-Error: network_policy_denied\r\n/i

  test('refuses all others, before a proxy hears of them', async () => {
    await using proxy = await httpProxy({ names: { ...NAMES, 'other.test': '127.0.0.1' } })
    await using agent = await agentOf()
    await agent.use({ port: proxy.port }, forwarder, { allowedHosts: ['site.test'] })
    expect(await answerTo(agent, get('/allowed', 'Connection: close'))).toMatch(/^HTTP\/1.1 200 /)
    expect(await answerTo(agent, get('/x', 'Connection: close').replaceAll('site.test', 'other.test'))).toMatch(REFUSED)
    expect(await answerTo(agent, tunnel('other.test'))).toMatch(REFUSED)
    expect(await answerTo(agent, tunnel('127.0.0.1'))).toMatch(REFUSED)
    expect(proxy.asked).toEqual([`GET http://site.test:${site.port}/allowed`])
  })

  test('holds without a proxy as well, and for routes', async () => {
    await using proxy = await httpProxy({ names: NAMES })
    await using agent = await agentOf()
    const key = newId()
    const upstream = { protocol: 'http' as const, host: '127.0.0.1', port: proxy.port, bypassHosts: [] }
    const routing = { routes: [{ hosts: ['site.test'], upstream }], allowedHosts: ['site.test', 'host.cob.internal'] }
    await forwarder.use({ id: agent.id, agent: agent.endpoint, key, path: pathTo(SOCKETS.links, { key }), routing }, signal)
    await agent.listener.open(key)
    expect(await answerTo(agent, get('/by-route', 'Connection: close'))).toMatch(/^HTTP\/1.1 200 /)
    expect(await answerTo(agent, get('/direct', 'Connection: close').replaceAll('site.test', 'host.cob.internal'))).toMatch(/^HTTP\/1.1 200 /)
    expect(await answerTo(agent, tunnel('other.test'))).toMatch(REFUSED)
    expect(proxy.asked).toEqual([`GET http://site.test:${site.port}/by-route`])
  })

  test('that changes ends tunnels to what it no longer has, and no others', async () => {
    await using proxy = await httpProxy({ names: { ...NAMES, 'other.test': '127.0.0.1' } })
    await using agent = await agentOf()
    await agent.use({ port: proxy.port }, forwarder, { allowedHosts: ['site.test', 'other.test'] })
    const [kept, ended] = [dialTo(agent), dialTo(agent)]
    kept.write(tunnel('site.test'))
    ended.write(tunnel('other.test'))
    for (const socket of [kept, ended]) await expect.poll(() => socket.said()).toMatch(/200 OK/)
    const closed = once(ended, 'close')
    expect(await forwarder.allow(agent.id, ['site.test'], signal)).toBe(true)
    await closed
    kept.write(`GET /kept HTTP/1.1\r\nHost: site.test\r\nConnection: close\r\n\r\n`)
    await expect.poll(() => kept.said()).toMatch(/site$/)
    expect(await answerTo(agent, tunnel('other.test'))).toMatch(REFUSED)
    kept.destroy()
  })
  test('that changes ends a request to what it no longer has, also when its connection has had another one since', async () => {
    await using proxy = await httpProxy({ names: { ...NAMES, 'other.test': '127.0.0.1' } })
    await using agent = await agentOf()
    await agent.use({ port: proxy.port }, forwarder, { allowedHosts: ['site.test', 'other.test'] })
    seen.length = 0
    const socket = dialTo(agent)
    // A body that does not end keeps its request open, and the next one needs no answer of it to be read.
    socket.write(get('/held').replaceAll('site.test', 'other.test') + get('/next'))
    await expect.poll(() => seen.length).toBe(2)
    const closed = once(socket, 'close')
    await forwarder.allow(agent.id, ['site.test'], signal)
    await closed
    expect(socket.said()).toBe('')
  })

  test('of a session that it sends nothing of is no matter of this program', async () => {
    expect(await forwarder.allow(newId(), ['site.test'], signal)).toBe(false)
  })
})
