// The links of one session: connections that the forwarder dials to its agent. The agent gives each connection of the browser a link of its own.
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { Bucket } from '../base/bucket.ts'
import { createServer } from '../base/node-http.ts'
import { sleep } from '../base/wait.ts'
import { UpgradeRefused, upgradeTo } from '../http/endpoint.ts'
import { forwardRequest, forwardTunnel, hostOf, MAX_HEAD_BYTES } from './forward.ts'
import type { Exit } from './messages.ts'
import type { DialOptions } from './upstream.ts'
import { routeTo, type Routing } from './routing.ts'

/** Links without a connection. A page opens six connections to a site at once. */
const SPARE = 8

/** Most links with a connection. Chromium opens at most 32 to a proxy; programs of the session may use it as well. */
const MAX_CONNECTIONS = 256

/** Wait after a link could not be dialled, or was closed unused: the first one, doubled up to the last. */
const RETRY_FIRST_MS = 20
const RETRY_LAST_MS = 1_000

/**
 * Limit on the dialling of links: each link costs this process a handshake, and an agent may use each of them for a byte. A page with hundreds of connections
 * does not wait.
 */
const DIALS = { perSecond: 100, atOnce: 500 }

/** A head of a request must be there after this time. */
const HEAD_MS = 30_000
/** Limit on the time in which nothing is sent or received on a connection. WebSockets without a heartbeat live that long. */
const IDLE_MS = 60 * 60_000

/** The agent's answer to a link of an older key (agent/session/sockets.ts). */
const REPLACED = 409

/** Keeps links into a session's agent until it is disposed. */
export class SessionExit implements Disposable {
  readonly exit: Exit
  readonly #server: Server
  readonly #stop = new AbortController()
  readonly #links = new Set<Duplex>()
  /** The hosts of the browser's open tunnels and running requests. */
  readonly #hosts = new Map<Duplex | ServerResponse, string>()
  #routing: Routing
  readonly #ready = Promise.withResolvers<void>()
  readonly #onReplaced: () => void
  readonly #dials = new Bucket(DIALS)
  #spare = 0
  #retryMs = RETRY_FIRST_MS

  constructor(exit: Exit, reach: DialOptions['reach'], onReplaced: () => void) {
    this.exit = exit
    this.#routing = exit.routing
    this.#onReplaced = onReplaced
    const options = { reach, signal: this.#stop.signal }
    const server = createServer({ maxHeaderSize: MAX_HEAD_BYTES, headersTimeout: HEAD_MS, requestTimeout: 0, keepAliveTimeout: IDLE_MS })
    server.on('request', (incoming, reply) => {
      this.#note(reply, incoming)
      void forwardRequest(incoming, reply, this.#routing, options)
    })
    server.on('connect', (incoming, socket, head) => {
      this.#note(socket, incoming)
      void forwardTunnel(incoming, socket, head, this.#routing, options)
    })
    server.on('clientError', (_error, socket) => socket.destroy())
    this.#server = server
    this.#fill()
  }

  /** From now on these hosts may be reached; all when absent. Connections to other hosts end. */
  allow(hosts: Routing['allowedHosts']): void {
    const routing: Routing = { ...this.#routing, allowedHosts: hosts }
    this.#routing = routing
    for (const [exchange, host] of this.#hosts) if (routeTo(host, routing) === 'denied') exchange.destroy()
  }

  /** One connection may have several requests at once, to different hosts. */
  #note(exchange: Duplex | ServerResponse, request: IncomingMessage): void {
    const host = hostOf(request)
    if (host === undefined) return
    exchange.once('close', () => this.#hosts.delete(exchange))
    this.#hosts.set(exchange, host)
  }

  /** Resolves when the first link is there. */
  get ready(): Promise<void> {
    return this.#ready.promise
  }

  #fill(): void {
    while (this.#spare < SPARE && this.#links.size < SPARE + MAX_CONNECTIONS && !this.#stop.signal.aborted) {
      this.#spare++
      void this.#dial()
    }
  }

  async #dial(): Promise<void> {
    const { signal } = this.#stop
    const { agent, path } = this.exit
    try {
      const waitMs = this.#dials.take()
      if (waitMs > 0) await sleep(waitMs, signal)
      const { socket, head } = await upgradeTo(agent, path, {}, signal)
      if (head.length > 0) socket.unshift(head)
      this.#keep(socket)
      this.#ready.resolve()
    } catch (error) {
      this.#spare--
      if (signal.aborted) return
      if (error instanceof UpgradeRefused && error.status === REPLACED) return this.#onReplaced()
      await this.#fillLater()
    }
  }

  /** Dials again after a wait, which grows until a link is used. */
  async #fillLater(): Promise<void> {
    const wait = this.#retryMs
    this.#retryMs = Math.min(RETRY_LAST_MS, wait * 2)
    await sleep(wait, this.#stop.signal).catch(() => {})
    this.#fill()
  }

  /** A link is spare until its first byte. Then it is a connection of the browser. */
  #keep(socket: Duplex): void {
    this.#links.add(socket)
    let isSpare = true
    const leave = () => {
      isSpare = false
      this.#spare--
    }
    const used = () => {
      if (!isSpare) return
      leave()
      this.#retryMs = RETRY_FIRST_MS
      this.#fill()
    }
    socket.once('close', () => {
      this.#links.delete(socket)
      // An agent that accepts links and closes them unused is dialled no faster than an agent that accepts none.
      if (!isSpare) return
      leave()
      void this.#fillLater()
    })
    ;(socket as Duplex & Partial<{ setTimeout(ms: number, then: () => void): void; setNoDelay(): void }>).setNoDelay?.()
    const onReadable = () => {
      // The end of a link that was never used.
      if (socket.readableLength === 0) return void (socket.readableEnded && socket.destroy())
      socket.off('readable', onReadable)
      ;(socket as Duplex & Partial<{ setTimeout(ms: number, then: () => void): void }>).setTimeout?.(IDLE_MS, () => socket.destroy())
      this.#server.emit('connection', socket)
      used()
    }
    socket.on('readable', onReadable)
    socket.once('end', () => isSpare && socket.destroy())
    if (this.#stop.signal.aborted) socket.destroy()
  }

  /** Ends all connections of the session, including those through the proxy. */
  [Symbol.dispose](): void {
    this.#stop.abort(new Error('the session uses this proxy no more'))
    this.#ready.resolve()
    for (const link of this.#links) link.destroy()
  }
}
