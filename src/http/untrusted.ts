// Answers of servers that run inside a sandbox. A program in there may have taken over the server, so status, headers and size are passed on only
// as far as the route allows.
import type { IncomingMessage, OutgoingHttpHeaders } from 'node:http'
import { crossing } from './endpoint.ts'
import { fault, type Fault } from './fault.ts'
import type { Route } from './route.ts'

/** Headers of a tool's answer that are passed to callers. `content-type` is not among them: the route sets it. */
const PASSED = [
  'accept-ranges',
  'allow',
  'cache-control',
  'content-length',
  'content-range',
  'etag',
  'last-modified',
  'retry-after',
  'www-authenticate',
  'x-accel-buffering',
  'x-should-retry',
]

/**
 * Headers of another site's answer that would affect this service's origin, or a proxy in front of it: cross-origin rights, transport rules,
 * stored site data, internal redirects of proxies.
 */
export const OF_THE_ORIGIN =
  /^(access-control-.*|alt-svc|clear-site-data|cross-origin-.*|nel|origin-agent-cluster|proxy-.*|report-to|reporting-endpoints|service-worker-allowed|strict-transport-security|x-accel-.*|x-request-id|x-sendfile)$/

/** Limit on a JSON answer, in bytes. The longest regular answer of a tool is a list of 100,000 files, 17 MB. */
const MAX_JSON_BYTES = 128 * 1024 * 1024

/** The head of an answer as a caller may see it, and the limit on its body. */
export interface PassedHead {
  status: number
  headers: OutgoingHttpHeaders
  maxBytes: number
}

/**
 * The parts of `response` that `route` allows. Every answer forbids browsers to run it as a page of this origin. `toBrowser` says that the caller is a web
 * browser that would store cookies.
 * @throws 502 when the route does not have the status or the type
 */
export function passedHead(route: Route, response: IncomingMessage, toBrowser: boolean): PassedHead {
  const status = response.statusCode ?? 0
  const inert = { 'x-content-type-options': 'nosniff' }
  // Some sites send a status above 599 to suspected robots, so a relayed answer may have one.
  if (status < 200 || status > (route.relays ? 999 : 599)) throw badAnswer(`status ${status}`)
  if (route.relays) {
    const headers = crossing(response.headers, ...(toBrowser ? ['set-cookie'] : []))
    for (const name of Object.keys(headers)) if (OF_THE_ORIGIN.test(name)) delete headers[name]
    const policy = [headers['content-security-policy'], 'sandbox'].filter(Boolean).join(', ')
    return { status, headers: { ...headers, ...inert, 'content-security-policy': policy }, maxBytes: Infinity }
  }
  const headers: OutgoingHttpHeaders = { ...inert, 'content-security-policy': "sandbox; default-src 'none'" }
  for (const name of PASSED) if (response.headers[name] !== undefined) headers[name] = response.headers[name]
  const declared = declaredType(route, status)
  if (declared === undefined) return { status, headers, maxBytes: 0 }
  if (mediaType(response.headers['content-type']) !== mediaType(declared))
    throw badAnswer(`content-type ${String(response.headers['content-type']).slice(0, 100)}`)
  const maxBytes = mediaType(declared) === 'application/json' ? MAX_JSON_BYTES : Infinity
  if (Number(response.headers['content-length'] ?? 0) > maxBytes) throw badAnswer(`${response.headers['content-length']} bytes of JSON`)
  return { status, headers: { ...headers, 'content-type': declared }, maxBytes }
}

const JSON_TYPE = 'application/json; charset=utf-8'

/** The type of a body under `route`; undefined when there is none. */
function declaredType({ reply }: Route, status: number): string | undefined {
  if (status === 204 || status === 304) return undefined
  if (status >= 300) return JSON_TYPE
  switch (reply.kind) {
    case 'none':
      return undefined
    case 'json':
    case 'page':
    case 'tokenPage':
      return JSON_TYPE
    case 'events':
      return 'text/event-stream'
    default:
      return reply.type
  }
}

const mediaType = (type: string | undefined): string | undefined => type?.split(';', 1)[0]!.trim().toLowerCase()

const badAnswer = (what: string): Fault => fault.badGateway(`the browser's agent gave an answer that cannot be passed on (${printable(what)})`)

const printable = (text: string): string => text.replaceAll(/[^\x20-\x7e]/g, '?')

/** Destroys `response` when its body exceeds `maxBytes`. Call it once the body has a reader. */
export function bound(response: IncomingMessage, maxBytes: number): void {
  if (maxBytes === Infinity) return
  let length = 0
  response.on('data', (chunk: Buffer) => {
    length += chunk.length
    if (length > maxBytes) response.destroy(new Error(`an answer has more than ${maxBytes} bytes`))
  })
}
