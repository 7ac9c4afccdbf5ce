// The port of the browser's proxy on the loopback of the instance. Each connection is joined with a link, which the service has dialled into the agent; the
// service handles its data. The agent does not read the data and has no password.
import { once } from 'node:events'
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { join } from '../../base/join.ts'
import { PROXY_ERROR_HEADER } from '../../base/proxy-probe.ts'
import { fault } from '../../http/fault.ts'

/** How long a connection waits for a link: the service may just be restarting. */
const LINK_MS = 5_000

/** Links with a key that is not in use yet are kept for this long. */
const EARLY_MS = 10_000

/** Most links without a connection, and most connections. */
const MAX_LINKS = 64
const MAX_CONNECTIONS = 256

/** Most keys of replaced links that are remembered. */
const MAX_REPLACED = 1_000

const TEXT = 'the service does not offer its proxy at the moment\n'
const NO_LINK = [
  'HTTP/1.1 502 Bad Gateway',
  `${PROXY_ERROR_HEADER}: unreachable`,
  'Content-Type: text/plain; charset=utf-8',
  `Content-Length: ${TEXT.length}`,
  'Connection: close',
  '',
  TEXT,
].join('\r\n')

interface Link {
  key: string
  socket: Duplex
  /** Takes the link out of the idle ones. */
  take(): void
}

export class ProxyListener {
  readonly #linkMs: number
  #server: Server | undefined
  #key: string | undefined
  #isRefusing = false
  readonly #replaced = new Set<string>()
  readonly #links = new Set<Link>()
  readonly #waiting = new Set<Socket>()
  readonly #connections = new Set<Socket>()

  /** `linkMs`: how long a connection waits for a link. */
  constructor(linkMs = LINK_MS) {
    this.#linkMs = linkMs
  }

  /** The port; undefined while there is no proxy. */
  get port(): number | undefined {
    return (this.#server?.address() as AddressInfo | null | undefined)?.port
  }

  /** From now on, connections get links with this key. Connections with links of another key end. */
  async open(key: string): Promise<void> {
    if (!this.#server) {
      const server = createServer({ pauseOnConnect: true, noDelay: true }, (client) => this.#accept(client))
      server.maxConnections = MAX_CONNECTIONS
      server.listen(0, '127.0.0.1')
      await once(server, 'listening')
      this.#server = server
    }
    this.#isRefusing = false
    if (key === this.#key) return
    this.#replace()
    this.#key = key
    this.#replaced.delete(key)
    this.#pair()
  }

  /** Ends all connections, and refuses new ones, until {@link open} or {@link close}. */
  refuse(): void {
    this.#replace()
    this.#isRefusing = true
    for (const client of this.#waiting) {
      client.emit(SETTLED)
      refuse(client)
    }
  }

  /** Stops listening, and ends all connections. */
  close(): void {
    this.#server?.close()
    this.#server = undefined
    this.#replace()
    for (const client of this.#waiting) client.destroy()
  }

  /** Ends everything with the present key. */
  #replace(): void {
    if (this.#key !== undefined) this.#replaced.add(this.#key)
    for (const key of this.#replaced) if (this.#replaced.size > MAX_REPLACED) this.#replaced.delete(key)
    this.#key = undefined
    for (const { key, socket } of this.#links) if (this.#replaced.has(key)) socket.destroy()
    for (const client of this.#connections) client.destroy()
  }

  /** Adds a link; `accept` completes its handshake. @throws 409 for a key that has been replaced; 429 when there are too many */
  link(key: string, socket: Duplex, accept: () => void): void {
    if (this.#replaced.has(key)) throw fault.conflict('links of another key are in use')
    if (this.#links.size >= MAX_LINKS) throw fault.tooMany(`there are ${MAX_LINKS} links already`, 1)
    accept()
    // A link sends nothing before it is used; reading detects its end.
    const onData = () => socket.destroy()
    const early = setTimeout(() => key !== this.#key && socket.destroy(), EARLY_MS).unref()
    const link: Link = {
      key,
      socket,
      take: () => {
        clearTimeout(early)
        this.#links.delete(link)
        socket.off('data', onData).off('end', onData).off('close', link.take)
      },
    }
    this.#links.add(link)
    socket.on('data', onData).on('end', onData).on('close', link.take)
    this.#pair()
  }

  #accept(client: Socket): void {
    client.on('error', () => client.destroy())
    if (this.#isRefusing) return refuse(client)
    this.#waiting.add(client)
    const timer = setTimeout(() => refuse(client), this.#linkMs).unref()
    const leave = () => {
      clearTimeout(timer)
      this.#waiting.delete(client)
    }
    client.once('close', leave)
    client.once(SETTLED, leave)
    this.#pair()
  }

  /** Gives waiting connections links, in their order. */
  #pair(): void {
    if (this.#key === undefined || !this.#server) return
    for (const client of this.#waiting) {
      const link = [...this.#links].find(({ key, socket }) => key === this.#key && !socket.destroyed)
      if (!link) return
      link.take()
      client.emit(SETTLED)
      this.#connections.add(client)
      client.once('close', () => this.#connections.delete(client))
      join(client, link.socket)
    }
  }
}

/** Event of a connection: it does not wait for a link any more. */
const SETTLED = 'settled'

/** Reports to a browser that its proxy does not work. A page that scans for open ports gets no answer, because it cannot send requests in proxy form. */
function refuse(client: Socket): void {
  client.once('data', (chunk: Buffer) => {
    if (/^(CONNECT |[A-Z]+ http:\/\/)/.test(chunk.toString('latin1', 0, 64))) client.end(NO_LINK)
    else client.destroy()
  })
  client.setTimeout(LINK_MS, () => client.destroy())
  client.resume()
}
