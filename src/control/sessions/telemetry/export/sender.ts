// Sends OTLP over HTTP: one request, and what its answer means. Destinations are named by callers, so every address is checked before it is connected to.
import { Agent as HttpAgent, request as httpRequest, type IncomingMessage, type RequestOptions } from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import { isIP } from 'node:net'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { abortable } from '../../../../base/wait.ts'
import { VERSION } from '../../../../base/version.ts'
import { reachable, Unreachable, type ReachSettings } from '../../../../egress/reachable.ts'
import type { Headers } from '../destinations/headers.ts'
import { MAX_ANSWER, MAX_RETRY_AFTER_MS, SEND_MS } from '../limits.ts'

const AGENT = { keepAlive: true, maxFreeSockets: 2, timeout: 60_000 }

/** `error` is a kind of failure that callers may see: never words, addresses or headers of a destination. */
export type Outcome =
  /** `rejected`: so many records it does not want. They are not to be sent again. */
  | { kind: 'delivered'; rejected: number }
  /** It does not take these records, and never will. */
  | { kind: 'refused'; error: string }
  | { kind: 'too_large'; error: string }
  /** It does not take this kind of data at all. */
  | { kind: 'not_taken'; error: string }
  /** It may take them later. */
  | { kind: 'failed'; error: string; retryAfterMs: number }

export interface Sender extends Disposable {
  /** @throws the signal's reason only */
  send(target: { endpoint: string; headers: Headers }, what: 'logs' | 'traces', content: object, signal: AbortSignal): Promise<Outcome>
}

const zip = promisify(gzip)

export function makeSender(reach: ReachSettings): Sender {
  const agents = { 'http:': new HttpAgent(AGENT), 'https:': new HttpsAgent(AGENT) }

  /** @throws what keeps it from being answered */
  async function exchange(target: { endpoint: string; headers: Headers }, path: string, body: Buffer, signal: AbortSignal): Promise<Answer> {
    const url = new URL(target.endpoint + path)
    const name = url.hostname.replace(/^\[(.*)\]$/, '$1')
    // Looked up here each time: between two requests a name may become that of an address that is closed to callers.
    const address = await reachable(url.hostname, reach, signal)
    const isSecure = url.protocol === 'https:'
    const options: RequestOptions & { servername?: string } = {
      method: 'POST',
      host: address,
      port: url.port || (isSecure ? 443 : 80),
      path: url.pathname,
      agent: isSecure ? agents['https:'] : agents['http:'],
      ...(isSecure && { servername: isIP(name) ? '' : name }),
      headers: {
        'User-Agent': `Cob/${VERSION}`,
        ...target.headers,
        Host: url.host,
        'Content-Type': 'application/json',
        'Content-Encoding': 'gzip',
        'Content-Length': body.length,
      },
      signal,
    }
    const { promise, resolve, reject } = Promise.withResolvers<Answer>()
    const sent = (isSecure ? httpsRequest : httpRequest)(options, (response) => {
      readAnswer(response).then(resolve, reject)
    })
    sent.on('error', (error) => reject(Object.assign(error, { wasIdle: sent.reusedSocket })))
    sent.end(body)
    return abortable(promise, signal)
  }

  return {
    async send(target, what, content, signal) {
      const limit = AbortSignal.timeout(SEND_MS)
      const both = AbortSignal.any([signal, limit])
      const body = await zip(JSON.stringify(content))
      try {
        const once = () => exchange(target, `/v1/${what}`, body, both)
        // A server may close a connection that was idle in the same moment.
        const answer = await once().catch((error: unknown) => {
          if (!(error as { wasIdle?: boolean }).wasIdle || both.aborted) throw error
          return once()
        })
        return meaning(answer, what)
      } catch (error) {
        signal.throwIfAborted()
        return { kind: 'failed', error: limit.aborted ? 'timeout' : kindOf(error), retryAfterMs: 0 }
      }
    },
    [Symbol.dispose]() {
      for (const agent of Object.values(agents)) agent.destroy()
    },
  }
}

interface Answer {
  status: number
  retryAfter: string | undefined
  text: string
}

async function readAnswer(response: IncomingMessage): Promise<Answer> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes += chunk.length
    // Leaving the loop closes the connection.
    if (bytes > MAX_ANSWER) break
    chunks.push(chunk)
  }
  return { status: response.statusCode!, retryAfter: response.headers['retry-after'], text: Buffer.concat(chunks).toString() }
}

function meaning({ status, retryAfter, text }: Answer, what: 'logs' | 'traces'): Outcome {
  const error = `http_${status}`
  if (status >= 200 && status < 300) return { kind: 'delivered', rejected: rejectedOf(text) }
  // Many collectors have no pipeline for traces.
  if (what === 'traces' && [404, 405, 501].includes(status)) return { kind: 'not_taken', error }
  if (status === 413) return { kind: 'too_large', error }
  // Wrong credentials and a wrong path are put right in the destination, not in the records.
  const mayWork = status < 400 || status >= 500 || [401, 403, 404, 405, 407, 408, 425, 429].includes(status)
  return mayWork ? { kind: 'failed', error, retryAfterMs: waitOf(retryAfter) } : { kind: 'refused', error }
}

/** Seconds, or a time. */
function waitOf(text: string | undefined): number {
  if (text === undefined) return 0
  const ms = /^\d{1,9}$/.test(text) ? Number(text) * 1000 : Date.parse(text) - Date.now()
  return Number.isFinite(ms) ? Math.min(MAX_RETRY_AFTER_MS, Math.max(0, ms)) : 0
}

/** How many records a partial success has left out. An answer in another form than the request's says nothing. */
function rejectedOf(text: string): number {
  try {
    const { partialSuccess: partial } = JSON.parse(text) as { partialSuccess?: { rejectedLogRecords?: unknown; rejectedSpans?: unknown } }
    const count = Number(partial?.rejectedLogRecords ?? partial?.rejectedSpans ?? 0)
    return Number.isSafeInteger(count) && count > 0 ? count : 0
  } catch {
    return 0
  }
}

function kindOf(error: unknown): string {
  if (error instanceof Unreachable) return 'address_not_reachable'
  const code = String((error as NodeJS.ErrnoException).code ?? '')
  if (/^(ERR_TLS|ERR_SSL|CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO|EPROTO)/.test(code)) return 'tls_failed'
  if (code === 'ECONNREFUSED') return 'connection_refused'
  return 'connection_failed'
}
