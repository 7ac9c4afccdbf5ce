// Forwards routes of one server through another. Bodies are streamed and never held whole.
import type { FastifyRequest } from 'fastify'
import type { IncomingMessage, OutgoingHttpHeaders } from 'node:http'
import { PassThrough, type Readable } from 'node:stream'
import { Gathered } from '../base/gathered.ts'
import { limitWaiting } from '../base/pipe.ts'
import { RETRY_SECONDS, Unavailable } from '../base/unavailable.ts'
import { announced, tooLarge } from './body.ts'
import { withoutOwnCookies } from './cookies.ts'
import { assertOffered, BadAnswer, crossing, fetchFrom, type Endpoint } from './endpoint.ts'
import { Fault, fault } from './fault.ts'
import { KeptAnswers, type KeptAnswer } from './kept.ts'
import { register, setStatus, type MountContext } from './mount.ts'
import { known, type Contract, type Principal, type Route } from './route.ts'
import { bound, passedHead, type PassedHead } from './untrusted.ts'

/** The target of a forwarded request, held while the request runs. */
export interface Target {
  endpoint: Endpoint
  /** Called once, when the answer has been sent or abandoned. */
  release: () => void
  /** Aborts when the target does not belong to the caller any more. */
  ended?: AbortSignal | undefined
}

/** Offers `contract` here. `reach` finds the target of a request, or throws a Fault. `innerPath` turns the public path into the target's path. */
export function mountForward(
  context: MountContext,
  contract: Contract,
  reach: (request: FastifyRequest, principal: Principal) => Promise<Target>,
  innerPath: (url: string) => string,
): void {
  const kept = new KeptAnswers()
  for (const route of Object.values(contract)) {
    // A body is read and dropped here when the route has none.
    const takesBody = route.body.def.type !== 'undefined'
    register(context, route, async (request, reply, signal, principal) => {
      const target = await reach(request, known(principal))
      // A caller may have left while the target was looked up.
      if (reply.raw.closed) target.release()
      else reply.raw.once('close', target.release)
      signal.throwIfAborted()
      assertOffered(target.endpoint, route.id)
      // The key contains the target's endpoint and not the requested path: another session may get the same name later.
      const address = JSON.stringify(target.endpoint) + pathOf(innerPath(request.url))
      const offered = route.revalidates ? kept.of(address) : undefined
      const withheld = [
        'host',
        'expect',
        ...ownCredentials(route, request),
        ...(offered ? ['if-none-match'] : []),
        ...(takesBody ? [] : ['content-length', 'content-type', 'content-encoding']),
      ]
      const answered = new AbortController()
      reply.raw.once('close', () => {
        if (request.raw.complete) return
        // The answer came before the whole body was sent. The rest is read and dropped, so that the client can send its next request.
        answered.abort()
        request.raw.resume()
      })
      const response = await sendOn(
        request.raw,
        route.maxBodyBytes,
        AbortSignal.any([signal, answered.signal, ...(target.ended ? [target.ended] : [])]),
        (during) =>
          fetchFrom(
            target.endpoint,
            {
              method: request.method,
              path: innerPath(request.url),
              headers: {
                ...crossing(withoutOwnCookies(request.headers), ...withheld),
                ...(offered && offered.size > 0 && { 'if-none-match': [...offered.keys()].join(', ') }),
                'x-request-id': request.id,
              },
              ...(takesBody && { body: request.raw }),
            },
            during,
          ),
      ).catch(async (error: unknown) => {
        if (signal.aborted || error instanceof Fault) throw error
        if (error instanceof BadAnswer) throw fault.badGateway(`the browser's agent gave an answer that cannot be passed on (${error.message})`)
        // The target may have ended by now. That is a different error from a target that does not answer.
        await reach(request, known(principal)).then(({ release }) => release())
        throw new Unavailable('the browser does not answer', RETRY_SECONDS, error)
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
      // An answer flows as soon as it has a listener, and the sending begins in a later turn. It resumes what is paused.
      response.pause()
      await request.entry?.stored
      if (response.destroyed && !response.complete) throw new Unavailable('the browser does not answer', RETRY_SECONDS)
      limitWaiting(reply.raw)
      void reply.headers(headers as Record<string, string>).send(route.looksOn ? endingWith(response) : response)
      bound(response, maxBytes)
      if (offered && status === 200) keepCopy(response, headers, (answer) => kept.keep(address, answer))
      return reply
    })
  }
}

/** The received part of an answer until it ends or breaks off. */
function endingWith(response: IncomingMessage): Readable {
  const out = new PassThrough()
  const end = () => out.end()
  response.on('error', end).on('close', end)
  out.on('close', () => response.destroy())
  return response.pipe(out)
}

/** {@link passedHead}; after a refusal the answer is not read further. */
function headOf(route: Route, request: FastifyRequest, response: IncomingMessage): PassedHead {
  try {
    return passedHead(route, response, isBrowser(request))
  } catch (error) {
    response.destroy()
    throw error
  }
}

/**
 * Whether the caller is a web browser, which would store the answer's cookies. Browsers send at least one of these headers with every request whose answer may
 * set a cookie here: `Upgrade-Insecure-Requests` with navigations, `Sec-Fetch-Site` to hosts on TLS and on loopback. (Cookies of a cross-site request need
 * `Secure`, and so TLS.)
 */
const isBrowser = ({ headers }: FastifyRequest): boolean => headers['sec-fetch-site'] !== undefined || headers['upgrade-insecure-requests'] !== undefined

/** Headers for us and not for the target. A caller that uses a session's token has sent no key, so its `authorization` is meant for the target. */
const ownCredentials = ({ relays }: Route, request: FastifyRequest): string[] =>
  !relays ? ['authorization', 'cookie'] : (request.query as { jwt?: unknown }).jwt === undefined ? ['authorization'] : []

const pathOf = (url: string): string => url.split('?', 1)[0]!

/** Limit on one kept answer, in bytes: a full screen of noise at 1920x1080 has 6 MB. Larger answers are forwarded and not kept. */
const KEPT_ANSWER_BYTES = 16 * 1024 * 1024
/** Limit on all copies that are being collected, in bytes. An agent may begin any number of pictures, and complete none. */
const COLLECTED_BYTES = 64 * 1024 * 1024
let collected = 0
/** Limit on a tag. Our own tags have a few dozen characters, and all known tags are sent in one header. */
const MAX_ETAG = 256

/** Calls back with the body of an answer once it has passed completely, if it has a tag and is not too large. */
function keepCopy(response: IncomingMessage, headers: OutgoingHttpHeaders, keep: (answer: KeptAnswer) => void): void {
  const { etag } = response.headers
  if (etag === undefined || etag.length > MAX_ETAG || Number(response.headers['content-length'] ?? 0) > KEPT_ANSWER_BYTES) return
  const body = new Gathered()
  let isWhole = true
  const drop = () => {
    isWhole = false
    collected -= body.length
    body.clear()
    response.off('data', collect)
  }
  const collect = (chunk: Buffer) => {
    if (body.length + chunk.length > KEPT_ANSWER_BYTES || collected + chunk.length > COLLECTED_BYTES) return drop()
    collected += chunk.length
    body.add(chunk)
  }
  response.on('data', collect)
  response.on('end', () => {
    // A copy: the collected bytes have a buffer of up to twice their size.
    if (isWhole) keep({ etag, headers, body: Buffer.from(body.bytes) })
  })
  response.on('close', drop)
}

/** Forwards a request with its body. @throws 413 and ends the request to the target when the body is over the limit */
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

/** The same contract below a prefix with its own parameters. */
export function under(prefix: string, contract: Contract, change: (route: Route) => Partial<Route>): Contract {
  return Object.fromEntries(Object.entries(contract).map(([name, route]) => [name, { ...route, path: prefix + route.path, ...change(route) }]))
}
