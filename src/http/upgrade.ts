// WebSocket endpoints: their paths and handlers, and the refusal of a request before the handshake.
import type { IncomingMessage, OutgoingHttpHeaders, Server } from 'node:http'
import type { Duplex } from 'node:stream'
import { newId } from '../base/ids.ts'
import type { Log } from '../base/log.ts'
import { STATUS_CODES } from '../base/node-http.ts'
import { entryOf, type AuditSettings, type Caller } from './audit.ts'
import { badText, parseQuery, splitUrl } from './body.ts'
import type { Upgraded } from './endpoint.ts'
import { asFault, fault } from './fault.ts'

/** The input of an upgrade handler. The handler owns the socket from then on. */
export interface UpgradeCall {
  params: Record<string, string>
  query: Record<string, unknown>
  request: IncomingMessage
  socket: Duplex
  head: Buffer
  /** Call it when the client has sent its token. `caller` is for the audit log; undefined for a session that has ended. */
  known: (caller: Caller | undefined) => void
  /** Call it when only the answer of the handshake is left: it is recorded in the audit log. */
  accepted: () => Promise<void>
  /** Aborts when the client leaves. */
  signal: AbortSignal
}

export type UpgradeHandler = (call: UpgradeCall) => Promise<void>

interface UpgradeSettings {
  /** Called when a client has sent its token (base/anonymous.ts). */
  known?: (socket: object) => void
  /** Called before every handler. @throws when the client may not connect at all */
  admit?: (request: IncomingMessage) => void
  audit?: AuditSettings
}

const SWITCHING = 101

/** Adds WebSocket endpoints to a server. Paths have placeholders in braces, like routes. `open` returns the number of open ones. */
export function mountUpgrades(
  server: Server,
  log: Log,
  handlers: Record<string, UpgradeHandler>,
  { known = () => {}, admit = () => {}, audit }: UpgradeSettings = {},
): { open: () => number } {
  const table = Object.entries(handlers).map(([path, handler]) => ({
    path,
    pattern: new RegExp(`^${path.replaceAll(/\{(\w+)\}/g, '(?<$1>[^/]+)')}$`),
    handler,
  }))
  let open = 0
  server.on('upgrade', (request, socket, head) => {
    const controller = new AbortController()
    const { path, query } = splitUrl(request.url ?? '')
    open++
    socket.on('error', () => socket.destroy())
    socket.on('close', () => {
      open--
      controller.abort(fault.clientClosed())
    })
    const began = performance.now()
    let caller: Caller | undefined
    let route = ''
    /** Undefined without an audit log, and for clients that have sent no token. */
    const entry = (status: number) => caller && audit && entryOf(request, caller, { route, status, durationMs: performance.now() - began }, audit)
    const answer = async () => {
      admit(request)
      if (request.headers.upgrade?.toLowerCase() !== 'websocket') throw fault.field('upgrade', 'must be websocket')
      const found = table.map((entry) => ({ match: entry.pattern.exec(path.replaceAll(/\/+/g, '/')), ...entry })).find(({ match }) => match)
      if (!found) throw fault.noRoute('WebSocket', path)
      route = found.path
      const params = Object.fromEntries(Object.entries(found.match!.groups ?? {}).map(([name, value]) => [name, decode(name, value)]))
      await found.handler({
        params,
        query: parseQuery(query),
        request,
        socket,
        head,
        known: (who) => {
          caller = who
          known(socket)
        },
        accepted: async () => {
          const done = entry(SWITCHING)
          caller = undefined
          if (done) await audit!.log.begin(done).stored
        },
        signal: controller.signal,
      })
    }
    answer().catch((error: unknown) => {
      const refused = entry(asFault(error).status)
      if (refused) audit!.log.note(refused)
      refuse(log, socket, error)
    })
  })
  return { open: () => open }
}

function decode(name: string, value: string): string {
  try {
    const text = decodeURIComponent(value)
    if (!badText(text)) return text
  } catch {}
  throw fault.field(name, 'is not valid in a URL')
}

function refuse(log: Log, socket: Duplex, error: unknown): void {
  const known = asFault(error)
  const id = newId()
  if (known.status >= 500) log.error({ request: id, err: known.cause ?? known }, known.message)
  if (!socket.writable) return void socket.destroy()
  const body = JSON.stringify(known.body())
  const headers = {
    ...known.headers,
    'content-type': 'application/json; charset=utf-8',
    'content-length': Buffer.byteLength(body),
    'x-request-id': id,
    connection: 'close',
  }
  socket.end(head(known.status, headers) + body)
}

/** Completes a client's handshake with the upstream server's answer to it. */
export function completeHandshake(socket: Duplex, { headers }: Pick<Upgraded, 'headers'>): void {
  const named = ['sec-websocket-accept', 'sec-websocket-protocol', 'sec-websocket-extensions']
  const known = Object.fromEntries(named.filter((name) => headers[name] !== undefined).map((name) => [name, headers[name]!]))
  socket.write(head(101, { upgrade: 'websocket', connection: 'Upgrade', ...known } as OutgoingHttpHeaders))
}

/** The client's handshake headers, to be forwarded. Its Origin is left out: every holder of the session's token may connect, from any page. */
export function handshakeHeaders(request: IncomingMessage): OutgoingHttpHeaders {
  return Object.fromEntries(Object.entries(request.headers).filter(([name]) => name.startsWith('sec-websocket-')))
}

const head = (status: number, headers: OutgoingHttpHeaders): string =>
  [`HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}`, ...Object.entries(headers).map(([name, value]) => `${name}: ${String(value)}`), '', ''].join('\r\n')
