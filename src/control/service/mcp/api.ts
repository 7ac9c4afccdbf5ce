// The API as a tool calls it: the same routes, for the same caller, as over the network.
import type { FastifyRequest } from 'fastify'
import type { IncomingMessage, Server } from 'node:http'
import type { z } from 'zod'
import { Gathered } from '../../../base/gathered.ts'
import { hasMoreValues } from '../../../http/body.ts'
import { queryText, type Input } from '../../../http/client.ts'
import { checked, Fault, fault } from '../../../http/fault.ts'
import { requestInProcess } from '../../../http/in-process.ts'
import { pathTo, type Reply, type Route } from '../../../http/route.ts'

/** Limit on an answer, in bytes: both outputs of a program, 8 MiB each, are 22 MiB as base64. */
const MAX_ANSWER_BYTES = 24 * 1024 * 1024
/** Limit on its values: they take time to parse and to write, in which this process does nothing else, and no tool shows so many. */
const MAX_VALUES = 200_000
/** What is read of an answer that refuses. */
const MAX_REFUSAL_BYTES = 64 * 1024
/** Characters of a refusal's message that are passed on: some of it may come from inside a session. */
const MAX_MESSAGE = 2_000

/** What of a request says who calls, from where and for which project. The last two let logs of both requests be joined. */
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

/** One page of a list, as tools answer it. `next_offset` is null on the last. */
export interface Items<T> {
  items: T[]
  has_more: boolean
  next_offset: number | null
}

type Value<R extends Reply> = R extends { kind: 'json'; schema: infer S extends z.ZodType }
  ? R extends { none: string }
    ? z.output<S> | undefined
    : z.output<S>
  : R extends { kind: 'page'; item: infer S extends z.ZodType }
    ? Items<z.output<S>>
    : R extends { kind: 'bytes' }
      ? Buffer
      : undefined

type Callable = Route<z.ZodType, z.ZodType, z.ZodType, Extract<Reply, { kind: 'json' | 'page' | 'none' | 'bytes' }>>

/** The API refused a call. The message is the one of the answer. */
export class Refused extends Error {
  override name = 'Refused'
  readonly status: number
  readonly code: string
  constructor(status: number, code: string, message: string) {
    super(message)
    this.status = status
    this.code = code
  }
}

export interface Api {
  readonly signal: AbortSignal
  /** Calls a route of the API. @throws Refused, or the signal's reason */
  call<R extends Callable>(route: R, input: Input<R>): Promise<Value<R['reply']>>
  /** Calls a tool of a session's agent, whose answer is checked: its programs may have made it up. @throws as {@link call} */
  inside<R extends Callable>(session: string, route: R, input: Input<R>): Promise<Value<R['reply']>>
  /** The same API for another project, by its name or id; without one, the same project. */
  forProject(project: string | undefined): Api
}

/** The API for the caller of `request`, who has been authenticated there and is again by each call. */
export function apiFor(server: Server, request: FastifyRequest, signal: AbortSignal): Api {
  const headers = Object.fromEntries(CALLER_HEADERS.flatMap((name) => (request.headers[name] === undefined ? [] : [[name, request.headers[name]]])))
  const remoteAddress = request.raw.socket.remoteAddress ?? ''
  const make = (own: typeof headers): Api => {
    const ask = async <R extends Callable>(route: R, path: string, input: { query?: unknown; body?: unknown }): Promise<Value<R['reply']>> => {
      const hasBody = route.body.def.type !== 'undefined'
      const response = await requestInProcess(
        server,
        {
          method: route.method,
          path: path + queryText(route, input.query),
          headers: { ...own, accept: 'application/json', ...(hasBody && { 'content-type': 'application/json' }) },
          body: hasBody ? JSON.stringify(input.body ?? {}) : undefined,
          remoteAddress,
        },
        signal,
      )
      return (await valueOf(route, response, signal)) as Value<R['reply']>
    }
    return {
      signal,
      call: (route, input) => ask(route, pathTo(route.path, input.params), input),
      async inside(session, route, input) {
        const value = await ask(route, `${pathTo('/browsers/{id}', { id: session })}${pathTo(route.path, input.params)}`, input)
        if (route.reply.kind !== 'json') return value
        const { data, problems } = checked(route.reply.schema, value)
        if (problems.length > 0) throw fault.badGateway("the browser's agent gave an answer that the call does not have")
        return data as never
      },
      // By both headers callers may name one; what contradicts the connection's own project is refused there.
      forProject: (project) =>
        project === undefined
          ? make(own)
          : make({ ...own, [own['x-kernel-project'] === undefined ? 'x-kernel-project' : 'x-kernel-project-id']: latin1(project) }),
    }
  }
  return make(headers)
}

/** Headers are sent as Latin-1; the service reads UTF-8 in them. */
function latin1(text: string): string {
  if (/[\r\n\0]/.test(text)) throw fault.field('project', 'must have no control characters')
  return Buffer.from(text).toString('latin1')
}

async function valueOf(route: Callable, response: IncomingMessage, signal: AbortSignal): Promise<unknown> {
  const status = response.statusCode!
  if (status >= 400) throw refusalOf(status, await bodyOf(response, MAX_REFUSAL_BYTES, signal).catch(() => Buffer.alloc(0)))
  const body = await bodyOf(response, MAX_ANSWER_BYTES, signal)
  if (route.reply.kind === 'bytes') return body
  if (route.reply.kind === 'none' || body.length === 0) return undefined
  const value = parsed(body)
  if (route.reply.kind !== 'page') return value
  const hasMore = response.headers['x-has-more'] === 'true'
  return { items: value, has_more: hasMore, next_offset: hasMore ? Number(response.headers['x-next-offset']) : null }
}

function parsed(body: Buffer): unknown {
  if (hasMoreValues(body, MAX_VALUES)) throw fault.badGateway(`the answer has more than ${MAX_VALUES} values; ask for less`)
  try {
    return JSON.parse(body.toString())
  } catch {
    throw fault.badGateway("the browser's agent gave an answer that is not JSON")
  }
}

function refusalOf(status: number, body: Buffer): Refused {
  let said: { code?: unknown; message?: unknown } = {}
  try {
    said = JSON.parse(body.toString()) as typeof said
  } catch {}
  const code = typeof said?.code === 'string' && /^\w{1,64}$/.test(said.code) ? said.code : 'internal_error'
  return new Refused(status, code, typeof said?.message === 'string' ? said.message.slice(0, MAX_MESSAGE) : `the API answered with the status ${status}`)
}

async function bodyOf(response: IncomingMessage, maxBytes: number, signal: AbortSignal): Promise<Buffer> {
  const body = new Gathered()
  try {
    for await (const chunk of response as AsyncIterable<Buffer>) {
      if (body.length + chunk.length > maxBytes) throw fault.badGateway(`the answer has more than ${maxBytes} bytes; ask for less`)
      body.add(chunk)
    }
  } catch (error) {
    signal.throwIfAborted()
    throw error instanceof Fault ? error : fault.badGateway('the answer broke off')
  }
  return body.bytes
}
