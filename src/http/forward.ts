// Re-homing: routes of one server offered by another, bodies streamed through and never held whole.
import type { FastifyRequest } from 'fastify'
import type { IncomingMessage } from 'node:http'
import { announced, tooLarge } from './body.ts'
import { crossing, fetchFrom, type Endpoint } from './endpoint.ts'
import { Fault, fault } from './fault.ts'
import { register, type MountContext } from './mount.ts'
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
  for (const route of Object.values(contract)) {
    register(context, route, async (request, reply, signal) => {
      const target = await reach(request, route, signal)
      // A caller who left while the target was looked for has closed already.
      if (reply.raw.closed) target.release()
      else reply.raw.once('close', target.release)
      signal.throwIfAborted()
      const response = await sendOn(request.raw, route.maxBodyBytes, signal, (during) =>
        fetchFrom(
          target.endpoint,
          {
            method: request.method,
            path: innerPath(request.url),
            headers: { ...crossing(request.headers, 'host', 'authorization', 'cookie', 'expect'), 'x-request-id': request.id },
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
      return reply
        .code(response.statusCode ?? 502)
        .headers(crossing(response.headers, 'x-request-id') as Record<string, string>)
        .send(response)
    })
  }
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
