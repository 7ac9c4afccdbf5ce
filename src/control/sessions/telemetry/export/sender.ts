// Sends OTLP over HTTP: one request, and the meaning of its answer. Callers name the destinations, so every address is checked before a connection.
import { Agent as HttpAgent } from 'node:http'
import { Agent as HttpsAgent } from 'node:https'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { outbound, troubleOf, type OutboundAnswer } from '../../../../egress/outbound.ts'
import { Unreachable, type ReachSettings } from '../../../../egress/reachable.ts'
import type { Headers } from '../destinations/headers.ts'
import { MAX_ANSWER, MAX_RETRY_AFTER_MS, SEND_MS } from '../limits.ts'

const AGENT = { keepAlive: true, maxFreeSockets: 2, timeout: 60_000 }

/** `error` is a kind of failure that callers may see: never text, addresses or headers of a destination. */
export type Outcome =
  /** `rejected`: number of records that the destination refuses. They are not sent again. */
  | { kind: 'delivered'; rejected: number }
  /** The destination refuses these records for good. */
  | { kind: 'refused'; error: string }
  | { kind: 'too_large'; error: string }
  /** The destination refuses this kind of data at all. */
  | { kind: 'not_taken'; error: string }
  /** The destination may accept the records later. */
  | { kind: 'failed'; error: string; retryAfterMs: number }

export interface Sender extends Disposable {
  /** @throws only the signal's reason */
  send(target: { endpoint: string; headers: Headers }, what: 'logs' | 'traces', content: object, signal: AbortSignal): Promise<Outcome>
}

const zip = promisify(gzip)

export function makeSender(reach: ReachSettings): Sender {
  const agents = { http: new HttpAgent(AGENT), https: new HttpsAgent(AGENT) }
  return {
    async send(target, what, content, signal) {
      const limit = AbortSignal.timeout(SEND_MS)
      const both = AbortSignal.any([signal, limit])
      const url = new URL(`${target.endpoint}/v1/${what}`)
      const headers = { ...target.headers, 'Content-Type': 'application/json', 'Content-Encoding': 'gzip' }
      const body = await zip(JSON.stringify(content))
      try {
        const once = () => outbound(url, { method: 'POST', headers, body, agents, maxBytes: MAX_ANSWER }, reach, both)
        // A server may have closed an idle connection at the same moment.
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

function meaning({ status, headers, body }: OutboundAnswer, what: 'logs' | 'traces'): Outcome {
  const error = `http_${status}`
  if (status >= 200 && status < 300) return { kind: 'delivered', rejected: rejectedOf(body.toString()) }
  // Many collectors have no pipeline for traces.
  if (what === 'traces' && [404, 405, 501].includes(status)) return { kind: 'not_taken', error }
  if (status === 413) return { kind: 'too_large', error }
  // Wrong credentials and a wrong path are mistakes of the destination's settings, not of the records.
  const mayWork = status < 400 || status >= 500 || [401, 403, 404, 405, 407, 408, 425, 429].includes(status)
  return mayWork ? { kind: 'failed', error, retryAfterMs: waitOf(headers['retry-after']) } : { kind: 'refused', error }
}

/** The header has seconds, or a time. */
function waitOf(text: string | undefined): number {
  if (text === undefined) return 0
  const ms = /^\d{1,9}$/.test(text) ? Number(text) * 1000 : Date.parse(text) - Date.now()
  return Number.isFinite(ms) ? Math.min(MAX_RETRY_AFTER_MS, Math.max(0, ms)) : 0
}

/** Number of records that a partial success rejects; 0 for an answer in another format. */
function rejectedOf(text: string): number {
  try {
    const { partialSuccess: partial } = JSON.parse(text) as { partialSuccess?: { rejectedLogRecords?: unknown; rejectedSpans?: unknown } }
    const count = Number(partial?.rejectedLogRecords ?? partial?.rejectedSpans ?? 0)
    return Number.isSafeInteger(count) && count > 0 ? count : 0
  } catch {
    return 0
  }
}

const KINDS = { tls: 'tls_failed', refused: 'connection_refused', failed: 'connection_failed' }
const kindOf = (error: unknown): string => (error instanceof Unreachable ? 'address_not_reachable' : KINDS[troubleOf(error)])
