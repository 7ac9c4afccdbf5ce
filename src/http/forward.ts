// Re-homing: routes of one server offered by another, bodies streamed through and never held whole.
import type { FastifyRequest } from 'fastify'
import type { IncomingMessage, OutgoingHttpHeaders } from 'node:http'
import { announced, tooLarge } from './body.ts'
import { crossing, fetchFrom, type Endpoint } from './endpoint.ts'
import { Fault, fault } from './fault.ts'
import { KeptAnswers, type KeptAnswer } from './kept.ts'
import { register, setStatus, type MountContext } from './mount.ts'
import type { Contract, Route } from './route.ts'

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
      const headers = crossing(response.headers, 'x-request-id')
      setStatus(reply, response.statusCode ?? 502)
      void reply.headers(headers as Record<string, string>).send(response)
      // Behind the send, which has begun to read: an answer flows as soon as anyone listens.
      if (offered && response.statusCode === 200) keepCopy(response, headers, (answer) => kept.keep(address, answer))
      return reply
    })
  }
}

/** Headers that are between the caller and us. Whoever comes with a session's token has not shown a key, so the header is somebody else's. */
const ownCredentials = ({ passesCredentials }: Route, request: FastifyRequest): string[] =>
  !passesCredentials ? ['authorization', 'cookie'] : (request.query as { jwt?: unknown }).jwt === undefined ? ['authorization'] : []

const pathOf = (url: string): string => url.split('?', 1)[0]!

/** Hands over what an answer held, once it has passed by whole, if it bears a tag. */
function keepCopy(response: IncomingMessage, headers: OutgoingHttpHeaders, keep: (answer: KeptAnswer) => void): void {
  const { etag } = response.headers
  if (etag === undefined) return
  const chunks: Buffer[] = []
  response.on('data', (chunk: Buffer) => void chunks.push(chunk))
  response.on('end', () => keep({ etag, headers, body: Buffer.concat(chunks) }))
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
