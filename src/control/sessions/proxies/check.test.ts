// Checks of proxies, against real ones: what a result proves, which addresses a check may reach, and its time limit.
import { createServer, type RequestListener } from 'node:http'
import { createServer as createTls } from 'node:https'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startFastCloud, type FastCloud } from '../../../../test/support/fast-cloud.ts'
import { httpProxy, makeCertificates, serveSockets, socksProxy, tcpServer, type Login } from '../../../../test/support/upstreams.ts'
import { fixedKeys } from '../../../base/keys.ts'
import { makeSealer } from '../../../base/sealed.ts'
import { checkUpstream } from './check.ts'
import type { Proxy } from './contract.ts'
import type { ProxyRow } from './rows.ts'
import { upstreamOf } from './upstream.ts'

const LOGIN: Login = { username: 'kim', password: 'CANARY-password' }
const OPEN = { allowHostLoopback: true }

const scope = new AsyncDisposableStack()
let certificates: Awaited<ReturnType<typeof makeCertificates>>
let cloud: FastCloud
/** The answer of the page. */
let page: (...request: Parameters<RequestListener>) => void
let plainPort: number
let securePort: number

beforeAll(async () => {
  certificates = await makeCertificates()
  const answer: RequestListener = (request, reply) => page(request, reply)
  plainPort = scope.use(await serveSockets(createServer(answer))).port
  securePort = scope.use(await serveSockets(createTls(certificates, answer))).port
  // A proxy on a server that only the operator may name.
  const own = scope.use(await httpProxy({ login: { username: 'isp-us', password: 'CANARY-operator' } }))
  cloud = scope.use(
    await startFastCloud({
      COB_ALLOW_HOST_LOOPBACK: '1',
      COB_PROXY_CHECK_URL: `http://127.0.0.1:${plainPort}/ip`,
      COB_PROXY_ISP: `http://isp-{country}:CANARY-operator@127.0.0.1:${own.port}`,
      COB_PROXY_MOBILE: `http://someone:CANARY-wrong@127.0.0.1:${own.port}`,
    }),
  )
})
afterAll(() => scope.disposeAsync())

const ip = (text: string) => {
  page = (_, reply) => void reply.end(text)
}

async function create(body: object): Promise<Proxy> {
  const response = await cloud.send('POST', '/proxies', body)
  if (response.status !== 201) throw new Error(`${response.status}: ${await response.text()}`)
  return (await response.json()) as Proxy
}
const at = (port: number, protocol: string, login: Partial<Login> = LOGIN, more: object = {}) =>
  create({ type: 'custom', protocol, config: { host: 'localhost', port, ...login, ...more } })
const get = async ({ id }: Proxy) => (await (await cloud.fetch(`/proxies/${id}`)).json()) as Proxy
async function check({ id }: Proxy, body: object = {}): Promise<Proxy & { message?: string }> {
  return (await (await cloud.send('POST', `/proxies/${id}/check`, body)).json()) as Proxy
}

describe('a check', () => {
  test.each(['http', 'https', 'socks5'] as const)('of %s proxies tells the address that the page saw, and is remembered', async (protocol) => {
    ip('{"ip": "203.0.113.7"}')
    const settings = { login: LOGIN, ...(protocol === 'https' && { tls: certificates }) }
    await using server = await (protocol === 'socks5' ? socksProxy(settings) : httpProxy(settings))
    const proxy = await at(server.port, protocol, LOGIN, protocol === 'https' ? { ca_bundle: certificates.ca } : {})
    expect(proxy).not.toHaveProperty('status')
    const checked = await check(proxy)
    expect(checked).toMatchObject({ id: proxy.id, status: 'available', ip_address: '203.0.113.7' })
    expect(Date.now() - Date.parse(checked.last_checked!)).toBeLessThan(10_000)
    expect(await get(proxy)).toEqual(checked)
    expect(server.asked).toEqual([expect.stringContaining(`127.0.0.1:${plainPort}`)])
  })

  test('goes to the server that the operator names for a type, with the choices in the user name', async () => {
    ip(' 203.0.113.8\n')
    expect(await check(await create({ type: 'isp' }))).toMatchObject({ status: 'available', ip_address: '203.0.113.8' })
    expect(await check(await create({ type: 'isp', config: { country: 'DE' } }))).toMatchObject({
      status: 'unavailable',
      status_reason: expect.stringContaining('user name and the password'),
    })
    const mobile = await check(await create({ type: 'mobile' }))
    expect(mobile.status).toBe('unavailable')
    expect(JSON.stringify(mobile)).not.toContain('CANARY')
  })

  test('with a url fetches that through the proxy, and the stored status stays as it is', async () => {
    ip('hello')
    await using server = await httpProxy({ login: LOGIN })
    const proxy = await at(server.port, 'http')
    expect(await check(proxy)).toMatchObject({ status: 'available' })
    const before = await get(proxy)
    page = (request, reply) => void reply.writeHead(request.url === '/a?b' ? 403 : 500).end('{"ip":"203.0.113.9"}')
    expect(await check(proxy, { url: `http://127.0.0.1:${plainPort}/a?b` })).toMatchObject({ status: 'available', ip_address: '203.0.113.9' })
    expect(await check(proxy, { url: 'http://127.0.0.1:1/' })).toMatchObject({ status: 'unavailable', status_reason: expect.any(String) })
    // Usually the proxy resolves names, but this name means the loopback of our machine.
    expect(await check(proxy, { url: `http://host.cob.internal:${plainPort}/` })).toMatchObject({ status: 'available' })
    expect(await get(proxy)).toEqual(before)
  })

  test("of https trusts what everybody trusts, and the proxy's own authority if it has one", async () => {
    ip('203.0.113.7')
    await using server = await httpProxy({ login: LOGIN })
    const url = `https://localhost:${securePort}/`
    const refused = await check(await at(server.port, 'http'), { url })
    expect(refused).toMatchObject({ status: 'unavailable', status_reason: expect.stringContaining(`localhost:${securePort}`) })
    expect(await check(await at(server.port, 'http', LOGIN, { ca_bundle: certificates.ca }), { url })).toMatchObject({
      status: 'available',
      ip_address: '203.0.113.7',
    })
  })

  test.each([
    ['a wrong password', { ...LOGIN, password: 'CANARY-wrong' }, /user name and the password/],
    ['no password', {}, /user name and the password/],
  ])('with %s says so, and stores it', async (_, login, reason) => {
    await using server = await httpProxy({ login: LOGIN })
    const proxy = await at(server.port, 'http', login)
    const checked = await check(proxy)
    expect(checked).toMatchObject({ status: 'unavailable', status_reason: expect.stringMatching(reason) })
    expect(await get(proxy)).toMatchObject({ status: 'unavailable', last_checked: checked.last_checked })
    expect(JSON.stringify(checked)).not.toContain('CANARY')
  })

  test('of a proxy that is not there, speaks no protocol, or has a certificate of nobody, says so', async () => {
    await using babble = await tcpServer((socket) => void socket.end('SSH-2.0-nobody\r\n'))
    await using secure = await httpProxy({ tls: certificates })
    expect(await check(await at(1, 'http'))).toMatchObject({ status: 'unavailable', status_reason: 'the proxy cannot be reached' })
    for (const protocol of ['http', 'https', 'socks5']) expect(await check(await at(babble.port, protocol))).toMatchObject({ status: 'unavailable' })
    expect(await check(await at(secure.port, 'https'))).toMatchObject({ status: 'unavailable', status_reason: expect.stringContaining('no secure connection') })
  })

  test('ends in time, also when a page never does, and reads only the beginning of a page', async () => {
    await using server = await httpProxy()
    const upstream = { protocol: 'http' as const, host: 'localhost', port: server.port, bypassHosts: [] }
    const tried = (ms?: number) => checkUpstream(upstream, `http://127.0.0.1:${plainPort}/`, OPEN, new AbortController().signal, ms)
    page = (_, reply) => void reply.writeHead(200).write('x')
    expect(await tried(300)).toEqual({ status: 'unavailable', reason: 'no answer in time' })
    page = (_, reply) => {
      const more = () => void (reply.destroyed || reply.write('x'.repeat(100_000), () => setImmediate(more)))
      more()
    }
    expect(await tried()).toEqual({ status: 'available' })
  })

  test('is refused beyond a number of them at once', async () => {
    const held = Promise.withResolvers<void>()
    await using mute = await tcpServer(() => {})
    const proxy = await at(mute.port, 'http', {})
    const abort = new AbortController()
    const answers = Array.from({ length: 40 }, async () => {
      const answer = await cloud.fetch(`/proxies/${proxy.id}/check`, { method: 'POST', signal: abort.signal })
      if (answer.status === 429) held.resolve()
      return answer
    })
    for (const answer of answers) answer.catch(() => {})
    await held.promise
    abort.abort()
    await Promise.allSettled(answers)
  })

  test('without a page proves that the proxy opens a connection', async () => {
    const nowhere = await tcpServer(() => {})
    await using _nowhere = nowhere
    await using server = await httpProxy({ names: { 'example.com': '127.0.0.1' } })
    const upstream = { protocol: 'http' as const, host: 'localhost', port: server.port, bypassHosts: [] }
    // Nothing listens on port 443 here, so this proxy fails to connect, and reports that.
    expect(await checkUpstream(upstream, undefined, OPEN, new AbortController().signal)).toEqual({
      status: 'unavailable',
      reason: 'the proxy answered with status 502',
    })
    expect(server.asked).toEqual(['CONNECT example.com:443'])
    await using ready = await tcpServer((socket) => void socket.once('data', () => socket.write('HTTP/1.1 200 OK\r\n\r\n')))
    expect(await checkUpstream({ ...upstream, port: ready.port }, undefined, OPEN, new AbortController().signal)).toEqual({ status: 'available' })
  })
})

describe('a check reaches nothing that is closed to callers', () => {
  const CLOSED = { allowHostLoopback: false }

  test.each(['127.0.0.1', 'localhost', '[::1]'])('such as a proxy at %s', async (host) => {
    await using server = await httpProxy()
    const upstream = { protocol: 'http' as const, host, port: server.port, bypassHosts: [] }
    expect(await checkUpstream(upstream, undefined, CLOSED, new AbortController().signal)).toMatchObject({
      status: 'unavailable',
      reason: expect.stringContaining('closed to callers'),
    })
    expect([server.asked, server.open()]).toEqual([[], 0])
  })

  test.each(['http://169.254.169.254/', 'http://[fd00:ec2::254]/', 'http://0.0.0.0/', 'http://no-such-host.invalid/'])('such as the page %s', async (url) => {
    await using server = await httpProxy()
    const proxy = await at(server.port, 'http', {})
    expect((await check(proxy, { url })).message).toMatch(/^url: /)
    expect(server.asked).toEqual([])
  })

  test.each(['', 'example.com', 'ftp://example.com/', 'file:///etc/passwd', 'http://kim:password@example.com/'])('such as the url %j', async (url) => {
    expect((await check(await at(1, 'http'), { url })).message).toMatch(/^url: /)
  })
})

test('a row becomes the server to connect to, with its login, bypasses and certificates', () => {
  const sealer = makeSealer(fixedKeys(Buffer.alloc(32, 1)), 'proxies')
  const provided = {
    datacenter: undefined,
    isp: undefined,
    mobile: undefined,
    residential: { protocol: 'http', host: 'h', port: 1, username: 'a-{country}[-{city}][-as{asn}]', password: 'p' },
  } as const
  const row = {
    id: 'p1',
    type: 'custom',
    protocol: 'https',
    config: { host: 'proxy.test', port: 8080 },
    secrets: null,
    bypass_hosts: ['a.test'],
  } as unknown as ProxyRow
  const of = (changes: object) => upstreamOf({ ...row, ...changes }, { sealer, provided })
  const sealed = (secrets: object, owner = 'p1') => ({ secrets: sealer.seal(JSON.stringify(secrets), owner) })
  expect(of({})).toEqual({ protocol: 'https', host: 'proxy.test', port: 8080, bypassHosts: ['a.test'] })
  expect(of(sealed({ username: 'kim', password: 'secret' }))).toMatchObject({ username: 'kim', password: 'secret' })
  expect(of(sealed({ password: 'secret' }))).toMatchObject({ username: '', password: 'secret' })
  expect(of(sealed({ ca: 'MINE' })).ca).toBe('MINE')
  expect(() => of(sealed({ username: 'kim' }, 'p2'))).toThrow(/COB_SECRET_KEY/)
  expect(of({ type: 'residential', config: { country: 'US', asn: 'AS7922' } })).toEqual({
    protocol: 'http',
    host: 'h',
    port: 1,
    username: 'a-us-as7922',
    password: 'p',
    bypassHosts: ['a.test'],
  })
  expect(() => of({ type: 'residential', config: {} })).toThrow(/needs a country/)
  expect(() => of({ type: 'isp' })).toThrow(/COB_PROXY_ISP/)
})
