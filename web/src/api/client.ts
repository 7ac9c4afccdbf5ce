// Makes calls of the API from the page, one function per kind of answer. All calls use fetch, with the header without which the service ignores the session cookie.
import { ROUTES } from 'virtual:routes'
import type { AnswerOf, CallId, EventOf, InputOf, ItemOf, ListId, StreamId } from './contracts.ts'
import { ApiError, refusalOf } from './error.ts'
import { project } from './project.ts'
import { readEvents } from './sse.ts'

export { ApiError, refusalOf }

/** The limit for an answer. Streams have no limit: their readers end them. */
export const ANSWER_MS = 130_000

interface Given {
  params?: Record<string, unknown> | undefined
  query?: Record<string, unknown> | undefined
  body?: unknown
}

interface Options {
  signal?: AbortSignal | undefined
  headers?: Record<string, string>
  /** The request continues when the page is closed. */
  keepalive?: boolean
}

/** One page of a list. `nextOffset` is undefined on the last page. */
export interface Page<T> {
  items: T[]
  nextOffset: number | undefined
}

// A browser's fetch cannot send Node's streams, so bytes are a Blob, and forms are FormData.
type Sent<I> = Omit<I, 'body'> & (I extends { body: infer B } ? { body: B extends object ? B | Blob | FormData : B } : { body?: unknown })

/** Calls a route that answers with JSON or nothing. @throws ApiError */
export async function call<K extends CallId>(id: K, input: Sent<InputOf<K>>, options: Options = {}): Promise<AnswerOf<K>> {
  const response = await send(id, input as Given, options)
  if (response.status === 204 || response.headers.get('content-length') === '0') return undefined as AnswerOf<K>
  const text = await response.text()
  return (text === '' ? undefined : JSON.parse(text)) as AnswerOf<K>
}

/** Calls a route that answers with one page of a list. @throws ApiError */
export async function page<K extends ListId>(id: K, input: Sent<InputOf<K>>, options: Options = {}): Promise<Page<ItemOf<K>>> {
  const response = await send(id, input as Given, options)
  const items = (await response.json()) as ItemOf<K>[]
  const next = response.headers.get('x-has-more') === 'true' ? Number(response.headers.get('x-next-offset')) : undefined
  return { items, nextOffset: next }
}

/** Calls a route that answers with bytes, which the caller reads from the response. @throws ApiError */
export const bytes = <K extends CallId>(id: K, input: Sent<InputOf<K>>, options: Options = {}): Promise<Response> =>
  send(id, input as Given, { ...options, signal: options.signal ?? AbortSignal.timeout(ANSWER_MS) })

/** Calls a route that answers with an event stream, until `signal` aborts or the stream ends. @throws ApiError */
export async function* stream<K extends StreamId>(
  id: K,
  input: Sent<InputOf<K>>,
  { signal, headers = {} }: { signal: AbortSignal; headers?: Record<string, string> },
): AsyncGenerator<{ id: string | undefined; event: EventOf<K> }> {
  const response = await send(id, input as Given, { signal, headers: { accept: 'text/event-stream', ...headers } })
  for await (const frame of readEvents(response.body!, signal)) yield { id: frame.id, event: JSON.parse(frame.data) as EventOf<K> }
}

async function send(id: CallId, given: Given, { signal, ...options }: Options): Promise<Response> {
  const [method, pattern] = ROUTES[id]!
  return request(method, pathOf(pattern, given.params) + queryOf(given.query), {
    ...options,
    body: given.body,
    signal: signal ?? AbortSignal.timeout(ANSWER_MS),
  })
}

/** Sends any request to the service, also one that is not a route of the API. @throws ApiError */
export async function request(
  method: string,
  path: string,
  { body, signal, headers = {}, keepalive = false }: Options & { body?: unknown } = {},
): Promise<Response> {
  const isRaw = body instanceof Blob || body instanceof FormData
  let response: Response
  try {
    response = await fetch(path, {
      method,
      headers: {
        'x-cob-dashboard': '1',
        ...project.headers(),
        ...(body !== undefined && !isRaw && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body !== undefined && { body: isRaw ? body : JSON.stringify(body) }),
      credentials: 'same-origin',
      redirect: 'error',
      keepalive,
      cache: 'no-store',
      signal: signal ?? AbortSignal.timeout(ANSWER_MS),
    })
  } catch (error) {
    if (signal?.aborted) throw signal.reason
    if ((error as Error).name === 'TimeoutError') throw new ApiError(0, 'timeout', 'The service has not answered in time.')
    throw new ApiError(0, 'unreachable', 'The service cannot be reached.')
  }
  // 304 means that the caller already has the content.
  if (!response.ok && response.status !== 304) throw await refusal(response)
  return response
}

async function refusal(response: Response): Promise<ApiError> {
  const text = await response.text().catch(() => '')
  return refusalOf(response.status, text, response.headers.get('x-request-id'))
}

/** The path of a call: each `{name}` of the pattern is its value in `params`. @throws TypeError when one is missing */
export function pathOf(pattern: string, params: Record<string, unknown> = {}): string {
  return pattern.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    const value = params[name]
    if (typeof value !== 'string' || value === '') throw new TypeError(`${pattern} needs a value for "${name}"`)
    // Browsers resolve `.` and `..` before they send a path, even when they are encoded.
    if (value === '.' || value === '..') throw new ApiError(404, 'not_found', `There is nothing named "${value}".`)
    return encodeURIComponent(value)
  })
}

/** Turns `{a: 1, tags: {k: 'v'}}` into `?a=1&tags[k]=v`. Undefined and empty values are left out. */
export function queryOf(query: Record<string, unknown> = {}): string {
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined || value === null || value === '') continue
    if (Array.isArray(value)) for (const each of value) search.append(name, String(each))
    else if (typeof value === 'object') for (const [key, inner] of Object.entries(value)) search.append(`${name}[${key}]`, String(inner))
    else search.append(name, String(value as string | number | boolean))
  }
  return search.size > 0 ? `?${search.toString()}` : ''
}
