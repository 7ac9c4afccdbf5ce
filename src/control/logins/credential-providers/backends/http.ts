// Stores that are servers: one request, with its answer as JSON. Callers name them, so every address is checked before a connection.
import type * as z from 'zod'
import { outbound, troubleOf, type OutboundAnswer } from '../../../../egress/outbound.ts'
import { reachable, Unreachable, type ReachSettings } from '../../../../egress/reachable.ts'
import { BackendProblem, parseJson } from './backend.ts'

/** Limit on one request with its answer. */
const ASK_MS = 10_000
const MAX_ANSWER = 16 * 1024 * 1024

interface Asked {
  method?: 'GET' | 'POST'
  headers?: Record<string, string>
  body?: object
}
export interface Answer {
  status: number
  /** Undefined when there is no body, or for an error status without JSON. */
  body: unknown
}

export interface Asker {
  /** @throws BackendProblem when there is no answer, or a redirect, which is never followed because it would get the token; the signal's reason */
  ask(url: string, asked: Asked, signal: AbortSignal): Promise<Answer>
  /** @throws BackendProblem when callers may not reach the host of a URL */
  assertReachable(url: string, signal: AbortSignal): Promise<void>
}

const COMPLAINTS = { tls: 'has no certificate that this machine trusts', refused: 'refuses connections', failed: 'cannot be reached' }

export function makeAsker(reach: ReachSettings): Asker {
  return {
    async ask(text, { method = 'GET', headers, body }, signal) {
      const limit = AbortSignal.timeout(ASK_MS)
      const both = AbortSignal.any([signal, limit])
      const url = new URL(text)
      const content = body && Buffer.from(JSON.stringify(body))
      const all = { Accept: 'application/json', ...headers, ...(content && { 'Content-Type': 'application/json' }) }
      const answer = await outbound(url, { method, headers: all, body: content, maxBytes: MAX_ANSWER }, reach, both).catch((error: unknown) => {
        signal.throwIfAborted()
        if (error instanceof Unreachable) throw new BackendProblem(error.message)
        throw new BackendProblem(`${url.host} ${limit.aborted ? `did not answer within ${ASK_MS / 1000} s` : COMPLAINTS[troubleOf(error)]}`)
      })
      return answerOf(url, answer)
    },
    async assertReachable(text, signal) {
      await reachable(new URL(text).hostname, reach, signal).catch((error: unknown) => {
        throw error instanceof Unreachable ? new BackendProblem(error.message) : error
      })
    },
  }
}

function answerOf({ host }: URL, { status, body, isCut }: OutboundAnswer): Answer {
  if (isCut) throw new BackendProblem(`${host} answers with more than ${MAX_ANSWER} bytes, the limit`)
  if (status >= 300 && status < 400) throw new BackendProblem(`${host} answers with a redirect, which is not followed`)
  if (status < 200 || status >= 300) return { status, body: undefined }
  return { status, body: body.length === 0 ? undefined : parseJson(body.toString('utf8'), `the answer of ${host}`) }
}

/** The parsed answer. `who` names the server for callers. @throws BackendProblem when it has another form */
export function parsed<T>(schema: z.ZodType<T>, { status, body }: Answer, who = 'the server'): T {
  const { data } = schema.safeParse(body)
  if (data === undefined) throw new BackendProblem(`${who} answers in another form than expected, with status ${status}`)
  return data
}
