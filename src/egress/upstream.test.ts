// Connections through proxies, honest and hostile ones.
import { once } from 'node:events'
import type { Duplex } from 'node:stream'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { httpProxy, makeCertificates, serveSockets, socksProxy, tcpServer, type Login } from '../../test/support/upstreams.ts'
import type { UpstreamError } from './upstream-error.ts'
import { dial, type DialOptions, type Upstream } from './upstream.ts'

const LOGIN: Login = { username: 'ann', password: 'canary-Pa55 ü:word' }
const NAMES = { 'only-the-proxy-knows.test': '127.0.0.1' }
const HOST = 'only-the-proxy-knows.test'

let echo: Awaited<ReturnType<typeof serveSockets>>
let certificates: Awaited<ReturnType<typeof makeCertificates>>
beforeAll(async () => {
  echo = await tcpServer((socket) => void socket.pipe(socket))
  certificates = await makeCertificates()
})
afterAll(() => echo[Symbol.asyncDispose]())

const options: DialOptions = {
  // The target's name must never be looked up here.
  reach: async (host) => {
    if (host !== 'localhost') throw new Error(`${host} was looked up`)
    return '127.0.0.1'
  },
  signal: new AbortController().signal,
}
const upstream = (port: number, more: Partial<Upstream> = {}): Upstream => ({ protocol: 'http', host: 'localhost', port, bypassHosts: [], ...more })

async function echoes(tunnel: Duplex): Promise<string> {
  tunnel.write('hello')
  const [said] = (await once(tunnel, 'data')) as [Buffer]
  tunnel.destroy()
  return String(said)
}

const refusal = (proxy: Upstream, more: Partial<DialOptions> = {}) =>
  dial(proxy, { host: HOST, port: 1 }, { ...options, ...more }).then(
    () => expect.unreachable('the proxy was accepted'),
    (error: UpstreamError) => ({ message: error.message, kind: error.kind, status: error.status }),
  )

describe('a connection through a proxy', () => {
  test.each(['http', 'https', 'socks5'] as const)(
    'of the kind %s reaches a host that only the proxy can resolve, with a user and a password',
    async (protocol) => {
      const settings = { login: LOGIN, names: NAMES }
      const made = protocol === 'socks5' ? socksProxy(settings) : httpProxy({ ...settings, ...(protocol === 'https' && { tls: certificates }) })
      await using proxy = await made
      const of = upstream(proxy.port, { protocol, ca: certificates.ca })
      expect(await echoes(await dial({ ...of, ...LOGIN }, { host: HOST, port: echo.port }, options))).toBe('hello')
      expect(proxy.asked.at(-1)).toMatch(new RegExp(`${HOST}:${echo.port}$`))
      expect(await refusal({ ...of, ...LOGIN, password: 'wrong' })).toMatchObject({ kind: 'credentials' })
      expect(await refusal(of)).toMatchObject({ kind: 'credentials' })
    },
  )

  test.each([
    ['an IPv4 address', '127.0.0.1', 'SOCKS 127.0.0.1'],
    ['an IPv6 address', '::ffff:127.0.0.1', 'SOCKS 00000000000000000000ffff7f000001'],
  ])('by SOCKS5 takes %s', async (_what, host, asked) => {
    await using proxy = await socksProxy({ names: { '00000000000000000000ffff7f000001': '127.0.0.1' } })
    expect(await echoes(await dial(upstream(proxy.port, { protocol: 'socks5' }), { host, port: echo.port }, options))).toBe('hello')
    expect(proxy.asked).toEqual([`${asked}:${echo.port}`])
  })

  test('does not lose what the target says together with the answer of the proxy', async () => {
    await using proxy = await tcpServer((socket) => void socket.once('data', () => socket.write('HTTP/1.1 200 OK\r\n\r\nfirst words')))
    const tunnel = await dial(upstream(proxy.port), { host: HOST, port: 1 }, options)
    expect(String((await once(tunnel, 'data'))[0])).toBe('first words')
    tunnel.destroy()
  })

  test('to a target that cannot be reached is refused with the status', async () => {
    await using proxy = await httpProxy({ names: NAMES })
    expect(await refusal(upstream(proxy.port))).toMatchObject({ kind: 'refused', status: 502 })
    await using socks = await socksProxy({ names: NAMES })
    expect(await refusal(upstream(socks.port, { protocol: 'socks5' }))).toMatchObject({ kind: 'refused', status: 5 })
  })

  test('by HTTPS accepts no certificate of an authority that is neither known nor given', async () => {
    await using proxy = await httpProxy({ tls: certificates })
    expect(await refusal(upstream(proxy.port, { protocol: 'https' }))).toMatchObject({ kind: 'unreachable', message: expect.stringContaining('secure') })
    const other = await makeCertificates()
    expect(await refusal(upstream(proxy.port, { protocol: 'https', ca: other.ca }))).toMatchObject({ kind: 'unreachable' })
  })
})

describe('a proxy that', () => {
  test('is not there, or may not be reached, is unreachable', async () => {
    const gone = await tcpServer(() => {})
    await gone[Symbol.asyncDispose]()
    expect(await refusal(upstream(gone.port))).toMatchObject({ kind: 'unreachable' })
    expect(await refusal(upstream(1, { host: 'forbidden.test' }))).toMatchObject({ kind: 'unreachable' })
  })

  const endless = (beginning: string) => (write: (text: string) => boolean) => {
    write(beginning)
    for (let i = 0; i < 100 && write('x'.repeat(1024)); i++);
  }
  const once101 = (text: string) => (write: (text: string) => boolean) => void write(text)
  test.each([
    ['sends a head without an end', endless('HTTP/1.1 200 OK\r\nx: ')],
    ['sends interim answers', once101('HTTP/1.1 100 Continue\r\n\r\n'.repeat(3))],
    ['switches protocols', once101('HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n')],
    ['does not speak HTTP', once101('220 mail ready\r\n')],
    ['closes in the middle of its head', once101('HTTP/1.1 200 OK\r\nx')],
    ['answers with 403', once101('HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n')],
  ])('%s is refused at once, and its connection closed', async (what, say) => {
    await using proxy = await tcpServer((socket) => {
      socket.once('data', () => {
        say((text) => socket.write(text))
        if (what.startsWith('closes')) socket.end()
      })
    })
    const error = await refusal({ ...upstream(proxy.port), ...LOGIN })
    expect(error).toMatchObject({ kind: 'refused' })
    expect(JSON.stringify(error)).not.toMatch(/canary|220 mail/)
    await expect.poll(proxy.open).toBe(0)
  })

  test.each([
    ['closes in the middle of its answer', [5], 'refused'],
    ['chooses what was not offered', [5, 9], 'refused'],
    ['speaks SOCKS4', [0, 90], 'refused'],
    ['accepts nothing', [5, 255], 'credentials'],
    ['asks for a password that there is not', [5, 2], 'refused'],
    ['invents a type of address', [5, 0, 5, 0, 0, 77, 1, 2], 'refused'],
  ])('speaks SOCKS5 and %s is refused', async (_what, bytes, kind) => {
    await using proxy = await tcpServer((socket) => void socket.once('data', () => socket.end(Buffer.from(bytes))))
    expect(await refusal(upstream(proxy.port, { protocol: 'socks5' }))).toMatchObject({ kind })
  })

  test('keeps silent is given up when the caller leaves, and its connection closed', async () => {
    for (const protocol of ['http', 'https', 'socks5'] as const) {
      await using proxy = await tcpServer((socket) => void socket.resume())
      const caller = new AbortController()
      const waiting = refusal(upstream(proxy.port, { protocol }), { signal: caller.signal })
      await expect.poll(proxy.open).toBe(1)
      caller.abort(new Error('left'))
      expect(await waiting).toMatchObject({ message: 'left' })
      await expect.poll(proxy.open).toBe(0)
    }
  })
})
