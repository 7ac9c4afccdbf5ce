// Re-homing: routes of one server offered by another, bodies streamed through and never held whole.
import type { FastifyRequest } from 'fastify'
import type { IncomingMessage, OutgoingHttpHeaders } from 'node:http'
import { announced, tooLarge } from './body.ts'
import { BadAnswer, crossing, fetchFrom, type Endpoint } from './endpoint.ts'
import { Fault, fault } from './fault.ts'
import { KeptAnswers, type KeptAnswer } from './kept.ts'
import { register, setStatus, type MountContext } from './mount.ts'
import type { Contract, Route } from './route.ts'
import { bound, passedHead, type PassedHead } from './untrusted.ts'

/** The server that a forwarded request goes to, held for as long as the request runs. */
export interface Target {
  endpoint: Endpoint
  /** Called once, when the answer has been sent or given up. */
  release: () => void
}

/**
 * Offers `contract` here. `reach` finds the target of a request, or throws a Fault; `innerPath` turns the public path
 * into the target's.
 */
export function mountForward(
  context: MountContext,
  contract: Contract,
  reach: (request: FastifyRequest, route: Route, signal: AbortSignal) => Promise<Target>,
  innerPath: (url: string) => string,
): void {
  const kept = new KeptAnswers()
  for (const route of Object.values(contract)) {
    register(context, route, async (request, reply, signal) => {
      const target = await reach(request, route, signal)
      // A caller who left while the target was looked for has closed already.
      if (reply.raw.closed) target.release()
      else reply.raw.once('close', target.release)
      signal.throwIfAborted()
      // Not the path that was asked for: the same name may be another session's later.
      const address = JSON.stringify(target.endpoint) + pathOf(innerPath(request.url))
      const offered = route.revalidates ? kept.of(address) : undefined
      const answered = new AbortController()
      reply.raw.once('close', () => {
        if (request.raw.complete) return
        // The answer came before all of the body had. The rest goes nowhere, but must be read for its sender to get to the next request.
        answered.abort()
        request.raw.unpipe().resume()
      })
      const response = await sendOn(request.raw, route.maxBodyBytes, AbortSignal.any([signal, answered.signal]), (during) =>
        fetchFrom(
          target.endpoint,
          {
            method: request.method,
            path: innerPath(request.url),
            headers: {
              ...crossing(request.headers, 'host', 'expect', ...ownCredentials(route, request), ...(offered ? ['if-none-match'] : [])),
              ...(offered && offered.size > 0 && { 'if-none-match': [...offered.keys()].join(', ') }),
              'x-request-id': request.id,
            },
            body: request.raw,
          },
          during,
        ),
      ).catch(async (error: unknown) => {
        if (signal.aborted || error instanceof Fault) throw error
        if (error instanceof BadAnswer) throw fault.badGateway(`the browser's agent gave an answer that cannot be passed on (${error.message})`)
        // It may be gone by now, which is another answer than not answering.
        await reach(request, route, signal).then(({ release }) => release())
        throw fault.unavailable('the browser does not answer', error)
      })
      const same = response.statusCode === 304 ? offered?.get(response.headers.etag ?? '') : undefined
      if (same) {
        response.resume()
        kept.keep(address, same)
        return reply
          .code(200)
          .headers(same.headers as Record<string, string>)
          .send(same.body)
      }
      const { status, headers, maxBytes } = headOf(route, request, response)
      setStatus(reply, status)
      void reply.headers(headers as Record<string, string>).send(response)
      // After the send, which has begun to read: an answer flows as soon as there is a listener.
      bound(response, maxBytes)
      if (offered && status === 200) keepCopy(response, headers, (answer) => kept.keep(address, answer))
      return reply
    })
  }
}

/** {@link passedHead}; an answer that is refused is not read any further. */
function headOf(route: Route, request: FastifyRequest, response: IncomingMessage): PassedHead {
  try {
    return passedHead(route, response, isBrowser(request))
  } catch (error) {
    response.destroy()
    throw error
  }
}

/**
 * Whether a web browser asks, which would store cookies that the answer sets. Browsers send one of these with every request whose
 * answer may set a cookie here: `Upgrade-Insecure-Requests` with navigations, `Sec-Fetch-Site` to hosts on TLS and on loopback.
 * (The cookies of another site's request need `Secure`, so TLS.)
 */
const isBrowser = ({ headers }: FastifyRequest): boolean => headers['sec-fetch-site'] !== undefined || headers['upgrade-insecure-requests'] !== undefined

/** Headers that are between the caller and us. A caller with a session's token has not shown a key, so its `authorization` is meant for the target. */
const ownCredentials = ({ relays }: Route, request: FastifyRequest): string[] =>
  !relays ? ['authorization', 'cookie'] : (request.query as { jwt?: unknown }).jwt === undefined ? ['authorization'] : []

const pathOf = (url: string): string => url.split('?', 1)[0]!

/** Bytes of one answer that is kept: a whole screen of noise at 1920x1080 has 6 MB. Larger ones pass and are not kept. */
const KEPT_ANSWER_BYTES = 16 * 1024 * 1024
/** Our own tags are a few dozen characters; all known ones are sent in one header. */
const MAX_ETAG = 256

/** Hands over what an answer held, once it has passed by whole, if it bears a tag and is not too large. */
function keepCopy(response: IncomingMessage, headers: OutgoingHttpHeaders, keep: (answer: KeptAnswer) => void): void {
  const { etag } = response.headers
  if (etag === undefined || etag.length > MAX_ETAG || Number(response.headers['content-length'] ?? 0) > KEPT_ANSWER_BYTES) return
  let chunks: Buffer[] = []
  let length = 0
  const collect = (chunk: Buffer) => {
    length += chunk.length
    if (length <= KEPT_ANSWER_BYTES) return void chunks.push(chunk)
    chunks = []
    response.off('data', collect)
  }
  response.on('data', collect)
  response.on('end', () => {
    if (length <= KEPT_ANSWER_BYTES) keep({ etag, headers, body: Buffer.concat(chunks, length) })
  })
}

/** Sends a request on with its body. @throws 413, with the other side let go, when the body is over the limit */
async function sendOn(
  raw: IncomingMessage,
  limitBytes: number,
  signal: AbortSignal,
  send: (signal: AbortSignal) => Promise<IncomingMessage>,
): Promise<IncomingMessage> {
  if (announced(raw) > limitBytes) throw await tooLarge(raw, limitBytes)
  const over = new AbortController()
  let length = 0
  raw.on('data', (chunk: Buffer) => {
    length += chunk.length
    if (length > limitBytes && !over.signal.aborted) over.abort()
  })
  try {
    return await send(AbortSignal.any([signal, over.signal]))
  } catch (error) {
    throw over.signal.aborted ? await tooLarge(raw, limitBytes) : error
  }
}

/** The same contract below a prefix with parameters of its own. */
export function under(prefix: string, contract: Contract, change: (route: Route) => Partial<Route>): Contract {
  return Object.fromEntries(Object.entries(contract).map(([name, route]) => [name, { ...route, path: prefix + route.path, ...change(route) }]))
}
