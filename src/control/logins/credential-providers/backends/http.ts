// Stores that are servers: one request, with its answer as JSON. Callers name them, so every address is checked before it is connected to.
import { request as httpRequest, type IncomingMessage, type RequestOptions } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { isIP } from 'node:net'
import { VERSION } from '../../../../base/version.ts'
import { abortable } from '../../../../base/wait.ts'
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
  /** Undefined when there is none, or the status is not one of success and the body no JSON. */
  body: unknown
}

export interface Asker {
  /** @throws BackendProblem when there is no answer, or a redirect, which is never followed: it would get the token; the signal's reason */
  ask(url: string, asked: Asked, signal: AbortSignal): Promise<Answer>
  /** @throws BackendProblem when callers may not reach the host of a URL */
  assertReachable(url: string, signal: AbortSignal): Promise<void>
}

export function makeAsker(reach: ReachSettings): Asker {
  const addressOf = (url: URL, signal: AbortSignal): Promise<string> =>
    reachable(url.hostname, reach, signal).catch((error: unknown) => {
      throw error instanceof Unreachable ? new BackendProblem(error.message) : error
    })

  return {
    async ask(text, asked, signal) {
      const limit = AbortSignal.timeout(ASK_MS)
      const both = AbortSignal.any([signal, limit])
      const url = new URL(text)
      try {
        // Looked up here each time: between two requests a name may become that of an address that is closed to callers.
        return await exchange(url, await addressOf(url, both), asked, both)
      } catch (error) {
        signal.throwIfAborted()
        if (error instanceof BackendProblem) throw error
        throw new BackendProblem(limit.aborted ? `${url.host} did not answer within ${ASK_MS / 1000} s` : `${url.host} ${complaint(error)}`)
      }
    },
    async assertReachable(text, signal) {
      await addressOf(new URL(text), signal)
    },
  }
}

async function exchange(url: URL, address: string, { method = 'GET', headers, body }: Asked, signal: AbortSignal): Promise<Answer> {
  const isSecure = url.protocol === 'https:'
  const name = url.hostname.replace(/^\[(.*)\]$/, '$1')
  const content = body === undefined ? undefined : Buffer.from(JSON.stringify(body))
  const options: RequestOptions & { servername?: string } = {
    method,
    host: address,
    port: url.port || (isSecure ? 443 : 80),
    path: url.pathname + url.search,
    agent: false,
    ...(isSecure && { servername: isIP(name) ? '' : name }),
    headers: {
      'User-Agent': `Cob/${VERSION}`,
      Accept: 'application/json',
      ...headers,
      Host: url.host,
      ...(content && { 'Content-Type': 'application/json', 'Content-Length': content.length }),
    },
    signal,
  }
  const { promise, resolve, reject } = Promise.withResolvers<Answer>()
  const sent = (isSecure ? httpsRequest : httpRequest)(options, (response) => {
    readAnswer(url, response).then(resolve, reject)
  })
  sent.on('error', reject)
  sent.end(content)
  return abortable(promise, signal)
}

async function readAnswer({ host }: URL, response: IncomingMessage): Promise<Answer> {
  const status = response.statusCode!
  const chunks: Buffer[] = []
  let bytes = 0
  // Leaving the loop closes the connection.
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > MAX_ANSWER) throw new BackendProblem(`${host} answers with more than ${MAX_ANSWER} bytes, the limit`)
    chunks.push(chunk)
  }
  if (status >= 300 && status < 400) throw new BackendProblem(`${host} answers with a redirect, which is not followed`)
  const text = Buffer.concat(chunks).toString('utf8')
  if (status < 200 || status >= 300) return { status, body: undefined }
  return { status, body: text === '' ? undefined : parseJson(text, `the answer of ${host}`) }
}

function complaint(error: unknown): string {
  const code = String((error as NodeJS.ErrnoException).code ?? '')
  if (/^(ERR_TLS|ERR_SSL|CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO|EPROTO)/.test(code)) return 'has no certificate that this machine trusts'
  return code === 'ECONNREFUSED' ? 'refuses connections' : 'cannot be reached'
}
