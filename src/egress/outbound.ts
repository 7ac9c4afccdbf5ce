// One HTTP request to a server that callers have named. Its address is checked before each connection.
import { request as httpRequest, type Agent as HttpAgent, type IncomingHttpHeaders, type IncomingMessage, type RequestOptions } from 'node:http'
import { request as httpsRequest, type Agent as HttpsAgent } from 'node:https'
import { isIP } from 'node:net'
import { VERSION } from '../base/version.ts'
import { abortable } from '../base/wait.ts'
import { reachable, type ReachSettings } from './reachable.ts'

export interface OutboundRequest {
  method: 'GET' | 'POST'
  headers: Record<string, string>
  body?: Buffer | undefined
  /** Agents that keep connections open for the next request. */
  agents?: { http: HttpAgent; https: HttpsAgent }
  /** Limit on the answer. The rest is cut off. */
  maxBytes: number
}

export interface OutboundAnswer {
  status: number
  headers: IncomingHttpHeaders
  body: Buffer
  isCut: boolean
}

/**
 * Redirects are not followed.
 * @throws Unreachable; the error that kept the server from answering, with `wasIdle` when its connection had been open before; the signal's reason
 */
export async function outbound(
  url: URL,
  { method, headers, body, agents, maxBytes }: OutboundRequest,
  reach: ReachSettings,
  signal: AbortSignal,
): Promise<OutboundAnswer> {
  // Resolved each time: between two requests the name may change to an address that is closed to callers.
  const address = await reachable(url.hostname, reach, signal)
  const isSecure = url.protocol === 'https:'
  const name = url.hostname.replace(/^\[(.*)\]$/, '$1')
  const options: RequestOptions & { servername?: string } = {
    method,
    host: address,
    port: url.port || (isSecure ? 443 : 80),
    path: url.pathname + url.search,
    agent: agents ? (isSecure ? agents.https : agents.http) : false,
    ...(isSecure && { servername: isIP(name) ? '' : name }),
    headers: { 'User-Agent': `Cob/${VERSION}`, ...headers, Host: url.host, ...(body && { 'Content-Length': body.length }) },
    signal,
  }
  const { promise, resolve, reject } = Promise.withResolvers<OutboundAnswer>()
  const sent = (isSecure ? httpsRequest : httpRequest)(options, (response) => {
    answerOf(response, maxBytes).then(resolve, reject)
  })
  sent.on('error', (error) => reject(Object.assign(error, { wasIdle: sent.reusedSocket })))
  sent.end(body)
  return abortable(promise, signal)
}

async function answerOf(response: IncomingMessage, maxBytes: number): Promise<OutboundAnswer> {
  const { statusCode, headers } = response
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes += chunk.length
    // Leaving the loop closes the connection.
    if (bytes > maxBytes) break
    chunks.push(chunk)
  }
  return { status: statusCode!, headers, body: Buffer.concat(chunks), isCut: bytes > maxBytes }
}

/** Why a server did not answer. */
export function troubleOf(error: unknown): 'tls' | 'refused' | 'failed' {
  const code = String((error as NodeJS.ErrnoException).code ?? '')
  if (/^(ERR_TLS|ERR_SSL|CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO|EPROTO)/.test(code)) return 'tls'
  return code === 'ECONNREFUSED' ? 'refused' : 'failed'
}
