// Proxies for tests: HTTP, HTTPS with its own certificate authority, SOCKS5. Each records its requests.
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer as createHttp, request, type IncomingMessage, type RequestListener } from 'node:http'
import { connect, createServer as createTcp, type AddressInfo, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Duplex } from 'node:stream'
import { createServer as createTls } from 'node:tls'
import { promisify } from 'node:util'

export interface Login {
  username: string
  password: string
}

export interface TestProxy extends AsyncDisposable {
  port: number
  /** The requests: `CONNECT host:port`, `GET http://…`, `SOCKS host:port`. */
  asked: string[]
  /** The number of open connections. */
  open(): number
}

/** The address to which a proxy connects for each name of the test. */
export type Names = Record<string, string>

interface ProxySettings {
  login?: Login
  names?: Names
}

/** Listens with a server on a free port of 127.0.0.1, or of another address. Disposing closes it with its connections. */
export async function serveSockets(server: Server, host = '127.0.0.1'): Promise<{ port: number; open: () => number } & AsyncDisposable> {
  const sockets = new Set<Socket>()
  server.on('connection', (socket: Socket) => sockets.add(socket.on('error', () => {}).on('close', () => sockets.delete(socket))))
  server.listen(0, host)
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    open: () => sockets.size,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}

/** A TCP server that passes each connection to `handle`. */
export const tcpServer = (handle: (socket: Socket) => void) => serveSockets(createTcp(handle))

const join2 = (a: Duplex, b: Duplex) => {
  a.on('error', () => b.destroy()).on('close', () => b.destroy())
  b.on('error', () => a.destroy()).on('close', () => a.destroy())
  a.pipe(b).pipe(a)
}

/** An HTTP proxy for CONNECT and for requests in absolute form. With `tls`, it is an HTTPS proxy. */
export async function httpProxy({ login, names = {}, tls }: ProxySettings & { tls?: { key: string; cert: string } } = {}): Promise<TestProxy> {
  const asked: string[] = []
  const expected = login && `Basic ${Buffer.from(`${login.username}:${login.password}`).toString('base64')}`
  const isKnown = ({ headers }: IncomingMessage) => expected === undefined || headers['proxy-authorization'] === expected
  const plain: RequestListener = (incoming, reply) => {
    asked.push(`${incoming.method} ${incoming.url}`)
    if (!isKnown(incoming)) return void reply.writeHead(407, { 'proxy-authenticate': 'Basic' }).end()
    const url = new URL(incoming.url!)
    const { 'proxy-authorization': _, connection: _own, ...headers } = incoming.headers
    const onward = request({
      host: names[url.hostname] ?? url.hostname,
      port: url.port || 80,
      path: url.pathname + url.search,
      method: incoming.method!,
      agent: false,
      headers,
    })
    onward.on('error', () => reply.writeHead(502).end())
    onward.on('response', (answer) => {
      reply.writeHead(answer.statusCode!, { ...answer.headers, 'x-through': String(served.port) })
      answer.on('close', () => answer.complete || reply.destroy())
      answer.pipe(reply)
    })
    incoming.pipe(onward)
  }
  const http = createHttp(plain).on('connect', (incoming: IncomingMessage, socket: Duplex) => {
    asked.push(`CONNECT ${incoming.url}`)
    socket.on('error', () => {})
    if (!isKnown(incoming)) return void socket.end('HTTP/1.1 407 Proxy Authentication Required\r\nproxy-authenticate: Basic\r\ncontent-length: 0\r\n\r\n')
    const [, host = '', port] = /^\[?(.*?)\]?:(\d+)$/.exec(incoming.url!)!
    const onward = connect(Number(port), names[host] ?? host, () => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n')
      join2(socket, onward)
    })
    onward.on('error', () => socket.end('HTTP/1.1 502 Bad Gateway\r\n\r\n'))
  })
  const server = tls ? createTls(tls, (socket) => void http.emit('connection', socket)) : http
  const served = await serveSockets(server)
  return { ...served, asked }
}

export async function socksProxy({ login, names = {} }: ProxySettings = {}): Promise<TestProxy> {
  const asked: string[] = []
  const served = await tcpServer((socket) => void handle(socket).catch(() => socket.destroy()))
  async function handle(socket: Socket): Promise<void> {
    const read = async (length: number): Promise<Buffer> => {
      for (;;) {
        const bytes = socket.read(length) as Buffer | null
        if (bytes?.length === length) return bytes
        if (bytes) throw new Error('ended')
        await once(socket, 'readable')
      }
    }
    const [, count] = await read(2)
    const methods = [...(await read(count!))]
    const method = login ? 2 : 0
    if (!methods.includes(method)) return void socket.end(Buffer.from([5, 255]))
    socket.write(Buffer.from([5, method]))
    if (login) {
      const text = async () => String(await read((await read(1))[0]!))
      await read(1)
      const isRight = (await text()) === login.username && (await text()) === login.password
      socket.write(Buffer.from([1, isRight ? 0 : 1]))
      if (!isRight) return void socket.end()
    }
    const [, , , type] = await read(4)
    const bytes = await read(type === 1 ? 4 : type === 4 ? 16 : (await read(1))[0]!)
    const host = type === 1 ? bytes.join('.') : type === 4 ? bytes.toString('hex') : String(bytes)
    const port = (await read(2)).readUInt16BE()
    asked.push(`SOCKS ${host}:${port}`)
    const onward = connect(port, names[host] ?? host)
    onward.on('error', () => socket.end(Buffer.from([5, 5, 0, 1, 0, 0, 0, 0, 0, 0])))
    await once(onward, 'connect')
    socket.write(Buffer.from([5, 0, 0, 1, 127, 0, 0, 1, 0, 0]))
    join2(socket, onward)
  }
  return { ...served, asked }
}

/** A certificate authority, and a certificate that it has signed for `localhost` and another name. All in PEM. */
export async function makeCertificates(name = 'site.test'): Promise<{ ca: string; key: string; cert: string }> {
  const dir = mkdtempSync(join(tmpdir(), 'cob-ca-'))
  const file = (name: string) => join(dir, name)
  const openssl = (...args: string[]) => promisify(execFile)('openssl', args)
  try {
    const made = ['-newkey', 'rsa:2048', '-nodes', '-days', '1']
    await openssl('req', '-x509', ...made, '-subj', '/CN=a test authority', '-keyout', file('ca.key'), '-out', file('ca'))
    await openssl('req', ...made, '-subj', '/CN=localhost', '-keyout', file('key'), '-out', file('request'))
    writeFileSync(file('extensions'), `subjectAltName=DNS:localhost,DNS:${name}`)
    const signed = ['-CA', file('ca'), '-CAkey', file('ca.key'), '-CAcreateserial', '-days', '1', '-extfile', file('extensions')]
    await openssl('x509', '-req', '-in', file('request'), ...signed, '-out', file('cert'))
    const read = (name: string) => readFileSync(file(name), 'utf8')
    return { ca: read('ca'), key: read('key'), cert: read('cert') }
  } finally {
    rmSync(dir, { recursive: true })
  }
}
