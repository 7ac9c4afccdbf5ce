// Connections through a caller's proxy: HTTP and HTTPS proxies (CONNECT), SOCKS5. Host names of targets are resolved at the proxy.
import { isIP, connect as connectTcp } from 'node:net'
import type { Duplex } from 'node:stream'
import { connect as connectTls, getCACertificates } from 'node:tls'
import { request } from '../base/node-http.ts'
import { within, WaitTimeout } from '../base/wait.ts'
import { socksHandshake } from './socks.ts'
import { UpstreamError } from './upstream-error.ts'

/** A proxy, and the hosts that bypass it. */
export interface Upstream {
  protocol: 'http' | 'https' | 'socks5'
  host: string
  port: number
  username?: string
  password?: string
  /** Certificates (PEM) of authorities, in addition to those of Node: for an `https` proxy, and for a proxy that signs the answers of sites itself. */
  ca?: string
  /** Names and patterns, see routing.ts. */
  bypassHosts: string[]
}

export interface Target {
  host: string
  port: number
}

export interface DialOptions {
  /** The address to connect to for a host. @throws when it has none, or when it may not be connected to */
  reach: (host: string, signal: AbortSignal) => Promise<string>
  signal: AbortSignal
}

/** Connecting to a server, and its TLS handshake. */
const CONNECT_MS = 10_000

/** Time for a proxy to connect to the target. */
const HANDSHAKE_MS = 10_000

/** Limit on the head of a proxy's answer. */
const MAX_HEAD_BYTES = 16 * 1024

/** A connection to a host without a proxy. @throws when it fails within 10 s */
export async function dialDirect({ host, port }: Target, { reach, signal }: DialOptions): Promise<Duplex> {
  const address = await within('resolving a host', CONNECT_MS, reach(host, signal), signal)
  const socket = connectTcp({ host: address, port, noDelay: true })
  return await settled(socket, 'connect', 'connecting', signal)
}

/** A connection to the proxy itself. @throws UpstreamError; the signal's reason */
export async function connectTo(upstream: Upstream, options: DialOptions): Promise<Duplex> {
  try {
    const socket = await dialDirect(upstream, options)
    if (upstream.protocol !== 'https') return socket
    const { host, ca } = upstream
    const secure = connectTls({
      socket,
      host,
      servername: isIP(host) ? '' : host,
      ALPNProtocols: ['http/1.1'],
      // Also when NODE_TLS_REJECT_UNAUTHORIZED=0 is set, which people do for other servers.
      rejectUnauthorized: true,
      ...(ca !== undefined && { ca: known(ca) }),
    })
    return await settled(secure, 'secureConnect', 'a TLS handshake with a proxy', options.signal)
  } catch (error) {
    options.signal.throwIfAborted()
    throw unreachable(error)
  }
}

/** A connection to a target through the proxy. @throws UpstreamError; the signal's reason */
export async function dial(upstream: Upstream, target: Target, options: DialOptions): Promise<Duplex> {
  const socket = await connectTo(upstream, options)
  const tunnel = upstream.protocol === 'socks5' ? socksHandshake(socket, upstream, target) : connectMethod(socket, upstream, target)
  try {
    return await within("a proxy's answer", HANDSHAKE_MS, tunnel, options.signal)
  } catch (error) {
    socket.destroy()
    options.signal.throwIfAborted()
    if (error instanceof UpstreamError) throw error
    if (error instanceof WaitTimeout) throw new UpstreamError('unreachable', 'the proxy does not answer in time')
    throw new UpstreamError('refused', 'the proxy broke off the connection, or does not speak its protocol', { cause: error })
  }
}

/** The authorities of Node, and a caller's own. */
export const known = (ca: string): string[] => [...getCACertificates('default'), ca]

/** The value of `Proxy-Authorization` for an upstream; undefined without credentials. */
export const basicAuth = ({ username, password }: Pick<Upstream, 'username' | 'password'>): string | undefined =>
  username === undefined ? undefined : `Basic ${Buffer.from(`${username}:${password ?? ''}`).toString('base64')}`

/** A target as it is written in a request: IPv6 addresses in brackets. */
export const authority = ({ host, port }: Target): string => `${isIP(host) === 6 ? `[${host}]` : host}:${port}`

/** Asks an HTTP proxy for a tunnel. */
async function connectMethod(socket: Duplex, upstream: Upstream, target: Target): Promise<Duplex> {
  const { promise, resolve, reject } = Promise.withResolvers<Duplex>()
  const path = authority(target)
  const authorization = basicAuth(upstream)
  const asked = request({
    method: 'CONNECT',
    path,
    headers: { host: path, ...(authorization !== undefined && { 'proxy-authorization': authorization }) },
    createConnection: () => socket,
    maxHeaderSize: MAX_HEAD_BYTES,
  })
  asked.on('connect', ({ statusCode: status = 0 }, tunnel, head) => {
    // An error between the handshake and the listener of the next owner would end the process.
    tunnel.on('error', () => tunnel.destroy())
    // tinyproxy answers a wrong password with 401.
    if (status === 407 || status === 401) return reject(new UpstreamError('credentials', 'the proxy does not accept the user name and the password'))
    if (status < 200 || status > 299) return reject(new UpstreamError('refused', `the proxy answered with status ${status}`, { status }))
    if (head.length > 0) tunnel.unshift(head)
    resolve(tunnel)
  })
  // An endless series of interim answers would pass every limit except the time.
  asked.on('information', ({ statusCode: status }) => reject(new UpstreamError('refused', `the proxy answered with status ${status}`, { status })))
  // The parser's errors carry the bytes that it could not read: only their code is kept.
  asked.on('error', (error: NodeJS.ErrnoException) => reject(new Error(error.code ?? 'the connection ended')))
  asked.end()
  return await promise
}

/** Resolves with a socket that has emitted `event`; destroys a socket that has not emitted it in time. */
async function settled<S extends Duplex>(socket: S, event: string, what: string, signal: AbortSignal): Promise<S> {
  const { promise, resolve, reject } = Promise.withResolvers<S>()
  socket.once(event, () => resolve(socket))
  // The listener stays for the socket's life: the next owner may have no listener yet when the socket fails.
  socket.on('error', (error) => {
    reject(error)
    socket.destroy()
  })
  socket.once('close', () => reject(new Error('the connection ended')))
  try {
    return await within(what, CONNECT_MS, promise, signal)
  } catch (error) {
    socket.destroy()
    throw error
  }
}

function unreachable(cause: unknown): UpstreamError {
  const { code = '' } = cause as NodeJS.ErrnoException
  if (/CERT|ISSUER|CRL|ALTNAME|^ERR_(SSL|TLS)|^EPROTO$/.test(code))
    return new UpstreamError('unreachable', `no secure connection to the proxy: ${code}`, { cause })
  return new UpstreamError('unreachable', 'the proxy cannot be reached', { cause })
}
