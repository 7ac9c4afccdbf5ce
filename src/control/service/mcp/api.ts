// The API for tools: the same routes, for the same caller, as over the network. Every answer is checked: programs in a session may have invented it.
import type { FastifyRequest } from 'fastify'
import type { Server } from 'node:http'
import * as z from 'zod'
import { call, CallFailed, type Answer, type Callable, type Input, type Send } from '../../../http/client.ts'
import { Fault, fault } from '../../../http/fault.ts'
import { requestInProcess } from '../../../http/in-process.ts'
import type { Route } from '../../../http/route.ts'

/** Limit on an answer, in bytes: both outputs of a program, 8 MiB each, are 22 MiB as base64. */
const MAX_ANSWER_BYTES = 24 * 1024 * 1024
/** Limit on its JSON values: parsing and writing them blocks this process, and no tool shows as many. */
const MAX_VALUES = 200_000

/** The headers that identify the caller, its address and its project. The last two let logs of both requests be joined. */
const CALLER_HEADERS = [
  'host',
  'authorization',
  'cookie',
  'x-cob-dashboard',
  'x-kernel-project',
  'x-kernel-project-id',
  'x-forwarded-for',
  'user-agent',
  'x-request-id',
]

export interface Api {
  readonly signal: AbortSignal
  /** Calls a route of the API. @throws CallFailed, or the signal's reason */
  call<R extends Callable>(route: R, input: Input<R>): Promise<Answer<R>>
  /** The same API for another project, by its name or id; without one, the same project. */
  forProject(project: string | undefined): Api
}

/** The API for the caller of `request`, which has been authenticated. Each call authenticates it again. */
export function apiFor(server: Server, request: FastifyRequest, signal: AbortSignal): Api {
  const remoteAddress = request.raw.socket.remoteAddress ?? ''
  const make = (own: Record<string, unknown>): Api => {
    const send: Send = ({ method, path, headers, body }, until) =>
      requestInProcess(
        server,
        { method, path, headers: { ...own, accept: 'application/json', ...headers }, body: body as string | undefined, remoteAddress },
        until,
      )
    return {
      signal,
      call: (route, input) => call(send, route, input, { signal, maxBytes: MAX_ANSWER_BYTES, maxValues: MAX_VALUES }),
      // Callers may name a project in either header; a contradiction with the connection's own project is refused there.
      forProject: (project) =>
        project === undefined
          ? make(own)
          : make({ ...own, [own['x-kernel-project'] === undefined ? 'x-kernel-project' : 'x-kernel-project-id']: latin1(project) }),
    }
  }
  return make(Object.fromEntries(CALLER_HEADERS.flatMap((name) => (request.headers[name] === undefined ? [] : [[name, request.headers[name]]]))))
}

/** Headers are sent as Latin-1, but the service reads UTF-8 in them. */
function latin1(text: string): string {
  if (/[\r\n\0]/.test(text)) throw fault.field('project', 'must have no control characters')
  return Buffer.from(text).toString('latin1')
}

/** A call of a session's agent with its public path, below the session. */
export const inSession = <R extends Route>(route: R): Omit<R, 'params' | 'path'> & { path: string; params: z.ZodObject<{ id: z.ZodString }> } => ({
  ...route,
  path: `/browsers/{id}${route.path}`,
  params: z.strictObject({ id: z.string().min(1) }),
})

/** The code and the message of an error for the caller of a tool; undefined when the error is not meant for callers. */
export function refusalOf(error: unknown): { code: string; message: string } | undefined {
  if (error instanceof Fault) return error
  if (!(error instanceof CallFailed) || error.status === undefined) return undefined
  if (error.said === '') return fault.badGateway(error.message)
  return { code: error.code ?? 'internal_error', message: error.reason }
}
