// Network events as an HTTP Archive (HAR 1.2), entry by entry. An event's content comes from a session, so it may have any form.
import type { Envelope, EventType, TelemetryEvent } from '../../../agent/telemetry/contract.ts'
import { VERSION } from '../../../base/version.ts'
import { HAR_KEY, HAR_PAGES, HAR_TITLE, HAR_WAITING, HAR_WAITING_LENGTH } from './limits.ts'

/** The events that it needs. */
export const HAR_TYPES: ReadonlySet<EventType> = new Set<EventType>([
  'network_request',
  'network_response',
  'network_loading_failed',
  'page_dom_content_loaded',
  'page_load',
])

type Data = Record<string, unknown>
interface Pair {
  name: string
  value: string
}

interface HarPage {
  startedDateTime: string
  id: string
  title: string
  pageTimings: { onContentLoad: number | null; onLoad: number | null }
}

/** An entry that is still incomplete. */
interface Waiting {
  key: string
  startedAt: number
  request: object
  pageref: string | undefined
  resourceType: string
  initiator: string
  isCut: boolean
  /** Undefined until the request is answered or has failed. */
  end: { at: number; response: object; error?: string | undefined; isCut: boolean } | undefined
  length: number
}

const text = (value: unknown): string => (typeof value === 'string' ? value : '')
const keyOf = (value: unknown): string => held(text(value).slice(0, HAR_KEY))
/** A copy of a text: a slice would keep the whole original text in memory. */
const held = (value: string): string => Buffer.from(value, 'utf16le').toString('utf16le')
const number = (value: unknown): number => (typeof value === 'number' && Number.isFinite(value) ? value : 0)
const iso = (ts: number): string => new Date(ts / 1000).toISOString()

function headersOf(value: unknown): Pair[] {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return []
  return Object.entries(value).map(([name, content]) => ({ name, value: typeof content === 'string' ? content : JSON.stringify(content) }))
}

const headerOf = (headers: readonly Pair[], wanted: string): string => headers.find(({ name }) => name.toLowerCase() === wanted)?.value ?? ''

const queryOf = (url: string): Pair[] => (URL.canParse(url) ? [...new URL(url).searchParams].map(([name, value]) => ({ name, value })) : [])

/** A HAR uses -1 for unknown values. The captured events have neither the protocol nor sizes on the wire. */
const UNKNOWN_SIZES = { httpVersion: '', cookies: [], headersSize: -1, bodySize: -1 }

function requestOf(data: Data): object {
  const [url, headers] = [text(data.url), headersOf(data.headers)]
  const post = typeof data.post_data === 'string' ? { postData: { mimeType: headerOf(headers, 'content-type'), text: data.post_data } } : {}
  return { method: text(data.method) || 'GET', url, ...UNKNOWN_SIZES, headers, queryString: queryOf(url), ...post }
}

function responseOf(data: Data): object {
  const headers = headersOf(data.headers)
  const body = typeof data.body === 'string' ? data.body : undefined
  const declared = Number(headerOf(headers, 'content-length') || Number.NaN)
  return {
    status: number(data.status),
    statusText: text(data.status_text),
    ...UNKNOWN_SIZES,
    headers,
    content: {
      size: body === undefined ? (Number.isSafeInteger(declared) && declared >= 0 ? declared : 0) : Buffer.byteLength(body),
      mimeType: text(data.mime_type) || headerOf(headers, 'content-type') || 'x-unknown',
      ...(body !== undefined && { text: body }),
    },
    redirectURL: headerOf(headers, 'location'),
  }
}

/** Chromium's own form for a response that never came. */
const NO_RESPONSE = { status: 0, statusText: '', ...UNKNOWN_SIZES, headers: [], content: { size: 0, mimeType: 'x-unknown' }, redirectURL: '' }

function entryOf({ startedAt, request, pageref, resourceType, initiator, isCut, end }: Waiting): object {
  const time = end ? Math.max(0, end.at - startedAt) / 1000 : 0
  return {
    ...(pageref !== undefined && { pageref }),
    startedDateTime: iso(startedAt),
    time,
    request,
    response: { ...(end?.response ?? NO_RESPONSE), ...(end?.error !== undefined && { _error: end.error }) },
    cache: {},
    // The phases of the time are not captured.
    timings: { blocked: -1, dns: -1, connect: -1, ssl: -1, send: 0, wait: time, receive: 0 },
    _resourceType: resourceType.toLowerCase(),
    _initiator: { type: initiator || 'other' },
    ...(end === undefined && { comment: 'no answer was captured' }),
    ...((isCut || end?.isCut) && { comment: 'something was left out because it was too long' }),
  }
}

class Har {
  /** Incomplete entries, in the order of their requests. */
  readonly #waiting = new Set<Waiting>()
  #length = 0
  readonly #open = new Map<string, Waiting>()
  /** The current page of each target. */
  readonly #present = new Map<string, { page: HarPage; startedAt: number }>()
  readonly pages: HarPage[] = []

  /** The remaining entries, when no more events come. */
  rest(): Generator<object> {
    return this.#complete(true)
  }

  /** Takes an event, and yields the entries that it completes. */
  *take({ type, ts, data = {}, truncated = false }: TelemetryEvent): Generator<object> {
    const key = keyOf(data.request_id)
    const isCut = truncated
    if (type === 'network_request') this.#begin(key, ts, data, isCut)
    else if (type === 'network_response') this.#end(key, ts, data, { response: responseOf(data), isCut })
    else if (type === 'network_loading_failed') {
      const error = text(data.error_text) || (data.canceled === true ? 'net::ERR_ABORTED' : 'net::ERR_FAILED')
      this.#end(key, ts, data, { response: NO_RESPONSE, error, isCut })
    } else this.#mark(type, ts, data)
    yield* this.#complete(false)
  }

  #begin(key: string, ts: number, data: Data, isCut: boolean): void {
    const target = keyOf(data.target_id)
    const isPage = data.resource_type === 'Document' && data.target_type === 'page' && keyOf(data.frame_id) === target && target !== ''
    if (isPage && data.is_redirect !== true) this.#beginPage(target, ts, text(data.url))
    const request = requestOf(data)
    const pageref = this.#present.get(target)?.page.id
    this.#add({
      key,
      startedAt: ts,
      request,
      pageref,
      resourceType: text(data.resource_type) || 'Other',
      initiator: text(data.initiator_type),
      isCut,
      end: undefined,
      length: JSON.stringify(request).length,
    })
  }

  #add(waiting: Waiting): void {
    this.#waiting.add(waiting)
    this.#length += waiting.length
    this.#open.set(waiting.key, waiting)
  }

  #end(key: string, at: number, data: Data, { response, error, isCut }: { response: object; error?: string; isCut: boolean }): void {
    let open = this.#open.get(key)
    // The request came before the window, or before the capture.
    if (!open && text(data.url) === '') return
    if (!open) {
      this.#begin(key, at, data, false)
      open = this.#open.get(key)!
    }
    this.#open.delete(key)
    open.end = { at, response, error, isCut }
    const length = JSON.stringify(response).length
    open.length += length
    this.#length += length
  }

  #beginPage(target: string, ts: number, url: string): void {
    if (this.pages.length >= HAR_PAGES) return void this.#present.delete(target)
    const page: HarPage = {
      startedDateTime: iso(ts),
      id: `page_${this.pages.length + 1}`,
      title: held(url.slice(0, HAR_TITLE)),
      pageTimings: { onContentLoad: null, onLoad: null },
    }
    this.pages.push(page)
    this.#present.set(target, { page, startedAt: ts })
  }

  #mark(type: EventType, ts: number, data: Data): void {
    const present = this.#present.get(keyOf(data.target_id))
    if (!present) return
    const ms = Math.max(0, ts - present.startedAt) / 1000
    if (type === 'page_load') present.page.pageTimings.onLoad ??= ms
    else present.page.pageTimings.onContentLoad ??= ms
  }

  *#complete(isLast: boolean): Generator<object> {
    for (const first of this.#waiting) {
      const isTooMuch = this.#waiting.size > HAR_WAITING || this.#length > HAR_WAITING_LENGTH
      if (!first.end && !isLast && !isTooMuch) break
      this.#waiting.delete(first)
      this.#length -= first.length
      if (this.#open.get(first.key) === first) this.#open.delete(first.key)
      yield entryOf(first)
    }
  }
}

/** The archive as text, in pieces. Entries are in the order of their requests. */
export async function* harOf(events: AsyncIterable<Envelope>): AsyncGenerator<string> {
  const har = new Har()
  yield `{"log":{"version":"1.2","creator":${JSON.stringify({ name: 'Cob', version: VERSION })},"entries":[`
  let isFirst = true
  const piece = (entry: object) => {
    const comma = isFirst ? '\n' : ',\n'
    isFirst = false
    return comma + JSON.stringify(entry)
  }
  for await (const { event } of events) for (const entry of har.take(event)) yield piece(entry)
  for (const entry of har.rest()) yield piece(entry)
  yield '\n],"pages":['
  for (const [at, page] of har.pages.entries()) yield (at === 0 ? '\n' : ',\n') + JSON.stringify(page)
  yield '\n]}}\n'
}
