// Events about requests, their answers, and their failures, from Chromium's Network domain: for pages, frames in other processes, and workers.
import { Latest } from '../../../base/latest.ts'
import type { Protocol } from '../../chromium/cdp-protocol.ts'
import { scrubHeaders, scrubHeadersAgain } from '../../../base/redact/headers.ts'
import type { CutText, Secrets } from '../../../base/redact/redact.ts'
import type { Teller } from '../telemetry.ts'
import { cdpSource, watching, type Collector, type Context, type WatchedTarget } from './collector.ts'
import { Bodies, BodyGate } from './network/bodies.ts'
import { bodyBytes, isBinary, isEndless, usesNetwork } from './network/content.ts'
import { Flights, type Flight, type Head, type Held } from './network/flights.ts'
import { proxyErrorOf, proxyErrorOfFailure, type ProxyError } from './network/proxy-errors.ts'
import { Share } from './share.ts'
import { KEPT_BODIES, MAX_BODY, MAX_MOVING, MAX_POST, MAX_RAW_TEXT, MAX_URL, NETWORK_A_SECOND, SHORT_TEXT, STRUCTURED_BYTES } from '../limits.ts'

const cut = (value: unknown, max = SHORT_TEXT): string => (typeof value === 'string' ? value.slice(0, max) : '')

/**
 * Requests for documents of frames and scripts of workers, with the flights that they belong to. The page requests them, but they continue in another process.
 * So their later events come in another session, or, if that is attached too late, in none.
 */
type Moving = Latest<string, { flight: Flight; flights: Flights }>

/** Size of the body of a complete answer, in bytes; {@link Infinity} when it cannot be fetched, or is not known. */
function sizeOf({ bytes, isFromMemory }: Flight, { headers }: Head): number {
  // An answer from memory was reported when it came first.
  if (isFromMemory) return Infinity
  if (bytes > 0) return bytes
  // Chromium does not provide a body that the page reads as a blob.
  const name = Object.keys(headers).find((key) => key.toLowerCase() === 'content-length')
  return name !== undefined && Number(headers[name]) > 0 ? Infinity : 0
}

/** Requests that the browser makes for pages have random ids; those that pages make have numbers. */
const isToken = (requestId: string): boolean => !requestId.includes('.')

const hasNoBody = ({ method, head }: Flight): boolean => method === 'HEAD' || (head !== undefined && [204, 205, 304].includes(head.status))

export function networkCollector(secrets: Secrets): Collector {
  const held: Held = { length: 0 }
  const moving: Moving = new Latest(MAX_MOVING)
  const gate = new BodyGate()
  return {
    categories: ['network'],
    types: ['page', 'iframe', 'worker', 'service_worker', 'shared_worker'],
    watch(target, telemetry) {
      const { session } = target
      const watch = new NetworkWatch(target, telemetry, secrets, { held, moving, gate })
      const limits = { maxTotalBufferSize: KEPT_BODIES, maxResourceBufferSize: MAX_BODY, maxPostDataSize: MAX_POST }
      return watching(target, {
        begin: () => session.send('Network.enable', limits),
        end: () => watch.end(),
        disable: () => session.send('Network.disable', {}),
      })
    },
  }
}

/** State that all targets share. */
interface Shared {
  held: Held
  moving: Moving
  gate: BodyGate
}

/** The capture of one target. */
class NetworkWatch {
  readonly #target: WatchedTarget
  readonly #telemetry: Teller
  readonly #secrets: Secrets
  readonly #moving: Moving
  readonly #flights: Flights
  readonly #bodies: Bodies
  readonly #share: Share<'requests'>
  readonly #listeners: (() => void)[]

  constructor(target: WatchedTarget, telemetry: Teller, secrets: Secrets, { held, moving, gate }: Shared) {
    this.#target = target
    this.#telemetry = telemetry
    this.#secrets = secrets
    this.#moving = moving
    this.#flights = new Flights(held, () => this.#idle())
    this.#bodies = new Bodies(target, gate)
    this.#share = new Share('network', target, telemetry, NETWORK_A_SECOND)
    const { session } = target
    if (target.type === 'iframe') for (const [id, { flight }] of moving) if (flight.frameId === session.targetId) this.#arrived(id)
    this.#listeners = [
      session.on('Network.requestWillBeSent', (event) => this.#sent(event)),
      session.on('Network.requestServedFromCache', ({ requestId }) => this.#fromMemory(requestId)),
      session.on('Network.responseReceived', (event) => this.#answered(event)),
      session.on('Network.dataReceived', ({ requestId, dataLength }) => this.#received(requestId, dataLength)),
      session.on('Network.loadingFinished', ({ requestId }) => this.#finished(requestId)),
      session.on('Network.loadingFailed', (event) => this.#failed(event)),
      session.on('Network.webSocketCreated', (event) => this.#socketMade(event)),
      session.on('Network.webSocketWillSendHandshakeRequest', (event) => this.#socketSent(event)),
      session.on('Network.webSocketHandshakeResponseReceived', (event) => this.#socketAnswered(event)),
      session.on('Network.webSocketFrameError', (event) => this.#socketFailed(event)),
      session.on('Network.webSocketClosed', ({ requestId }) => void this.#flights.take(requestId)),
    ]
  }

  end(): void {
    for (const off of this.#listeners.splice(0)) off()
    for (const [id, { flights }] of this.#moving) if (flights === this.#flights) this.#moving.delete(id)
    this.#flights.clear()
    this.#share.tell()
  }

  #sent({ requestId, loaderId, documentURL, request, initiator, redirectResponse, type, frameId }: Protocol.Network.RequestWillBeSentEvent): void {
    if (!usesNetwork(request.url)) return
    if (!this.#share.fits('requests')) {
      this.#flights.take(requestId)
      return this.#share.lose()
    }
    const redirected = redirectResponse && (this.#flights.take(requestId) ?? this.#flight(redirectResponse.url, type, frameId, loaderId))
    if (redirected) {
      redirected.head = this.#head(redirectResponse)
      this.#proxySaid(requestId, redirected, redirectResponse)
      this.#tellAnswer(requestId, redirected, undefined, 'Network.requestWillBeSent')
    }
    const isMain = frameId !== undefined && frameId === this.#target.session.targetId && requestId === loaderId
    const flight = this.#flight(request.url, type, frameId, loaderId, { method: this.#clean(request.method), isMain })
    if (!this.#flights.add(requestId, flight)) this.#share.lose()
    if (!isMain && isToken(requestId)) this.#moving.set(requestId, { flight, flights: this.#flights })
    const post = this.#post(request)
    const headers = scrubHeaders(request.headers, this.#secrets)
    this.#emit('network_request', 'Network.requestWillBeSent', flight, flight.isUrlCut || post.isCut || headers.isCut, {
      request_id: cut(requestId),
      method: flight.method,
      document_url: this.#url(documentURL).text,
      headers: headers.headers,
      post_data: post.text,
      resource_type: flight.resourceType,
      initiator_type: cut(initiator.type),
      is_redirect: redirected !== undefined,
      redirect_url: redirected?.url,
    })
  }

  #fromMemory(requestId: string): void {
    const flight = this.#flights.get(requestId)
    if (flight) flight.isFromMemory = true
  }

  #answered({ requestId, loaderId, type, response, frameId }: Protocol.Network.ResponseReceivedEvent): void {
    if (!usesNetwork(response.url)) return
    let flight = this.#flights.get(requestId)
    if (!flight) {
      // A request above the limit is already counted as lost.
      if (!this.#moving.has(requestId) && !this.#share.fits('requests')) return
      flight = this.#arrived(requestId) ?? this.#flight(response.url, type, frameId, loaderId)
      if (!this.#flights.get(requestId) && !this.#flights.add(requestId, flight)) return this.#share.lose()
    }
    flight.resourceType = cut(type)
    if (!this.#flights.answered(requestId, this.#head(response))) return this.#share.lose()
    this.#proxySaid(requestId, flight, response)
    if (type !== 'EventSource' && !isEndless(response.mimeType)) return
    this.#flights.endless(flight)
    this.#tellAnswer(requestId, flight, undefined, 'Network.responseReceived')
  }

  #received(requestId: string, bytes: number): void {
    const flight = this.#flights.get(requestId)
    if (flight) flight.bytes += bytes
  }

  #finished(requestId: string): void {
    const flight = this.#flights.get(requestId) ?? this.#arrived(requestId)
    if (!flight) return
    // A page that navigates does not reliably end its requests.
    if (flight.isMain && flight.head && flight.head.status !== 204 && flight.head.status !== 205) this.#flights.dropBefore(flight)
    this.#flights.take(requestId)
    this.#moving.delete(requestId)
    if (flight.isEndless) return
    const tell = (body: CutText | undefined) => this.#tellAnswer(requestId, flight, body, 'Network.loadingFinished')
    if (!flight.head) return tell(undefined)
    const limit = bodyBytes(flight.head.mime_type)
    const size = flight.method === 'HEAD' || limit === 0 ? 0 : sizeOf(flight, flight.head)
    if (size === 0) return tell(undefined)
    if (size > MAX_BODY) return tell({ text: '', isCut: true })
    void this.#bodies.fetch(requestId, size).then((body) => {
      if (this.#target.signal.aborted) return
      tell(body === undefined ? { text: '', isCut: true } : isBinary(body) ? undefined : this.#secrets.scrubCut(body, limit))
    })
  }

  #failed({ requestId, type, errorText, canceled }: Protocol.Network.LoadingFailedEvent): void {
    const flight = this.#flights.get(requestId) ?? this.#arrived(requestId)
    this.#flights.take(requestId)
    this.#moving.delete(requestId)
    // The page has closed its event stream.
    if (flight?.isEndless && canceled) return
    // Chromium ends a fetch in this way when its answer can have no body.
    if (flight?.head && canceled && hasNoBody(flight)) return this.#tellAnswer(requestId, flight, undefined, 'Network.loadingFailed')
    const data = { request_id: cut(requestId), error_text: this.#clean(errorText, 256), canceled: canceled ?? false }
    const event = 'Network.loadingFailed'
    if (!flight) return this.#tellLateFailure(event, data)
    flight.resourceType ||= cut(type)
    this.#emit('network_loading_failed', event, flight, false, { ...data, resource_type: flight.resourceType })
    const why = proxyErrorOfFailure(errorText)
    if (why) this.#tellProxyError(requestId, flight, why, event)
  }

  /** A request that began before the capture, or exceeded the limit: neither its address nor its frame is known. */
  #tellLateFailure(event: string, data: object): void {
    const { target_id, target_type, session_id, nav_seq } = this.#target.context()
    const context = { target_id, target_type, session_id, nav_seq }
    this.#telemetry.emit({ type: 'network_loading_failed', source: cdpSource(event, context), data: { ...context, ...data } })
  }

  #proxySaid(requestId: string, flight: Flight, { url, status, headers }: Protocol.Network.Response): void {
    // An answer through a tunnel comes from a site, whatever it says.
    const why = /^http:/i.test(url.slice(0, 8)) ? proxyErrorOf(status, headers) : undefined
    if (why) this.#tellProxyError(requestId, flight, why, 'Network.responseReceived')
  }

  #tellProxyError(requestId: string, flight: Flight, why: ProxyError, event: string): void {
    this.#emit('proxy_error', event, flight, false, { ...why, request_id: cut(requestId), method: flight.method, resource_type: flight.resourceType })
  }

  /** `body`: undefined when there is none to report. */
  #tellAnswer(requestId: string, flight: Flight, body: CutText | undefined, event: string): void {
    this.#refresh(flight)
    const { status, status_text, mime_type, headers, isCut = false } = flight.head ?? {}
    this.#emit('network_response', event, flight, isCut || (body?.isCut ?? false), {
      request_id: cut(requestId),
      method: flight.method,
      status,
      status_text,
      mime_type,
      headers,
      resource_type: flight.resourceType,
      body: body?.text === '' && body.isCut ? undefined : body?.text,
    })
  }

  #idle(): void {
    // Other targets have no own network: their loads belong to a page.
    if (this.#target.type !== 'page') return
    const context = this.#target.context()
    this.#telemetry.emit({ type: 'network_idle', source: { ...cdpSource('', context), event: undefined }, data: context })
  }

  #socketMade({ requestId, url }: Protocol.Network.WebSocketCreatedEvent): void {
    if (!this.#share.fits('requests')) return this.#share.lose()
    const flight = this.#flight(url, 'WebSocket', undefined, undefined, { method: 'GET' })
    if (!this.#flights.add(requestId, flight)) return this.#share.lose()
    // The page does not wait for an open socket.
    this.#flights.endless(flight)
  }

  #socketSent({ requestId, request }: Protocol.Network.WebSocketWillSendHandshakeRequestEvent): void {
    const flight = this.#flights.get(requestId)
    if (!flight) return
    const headers = scrubHeaders(request.headers, this.#secrets)
    const data = { request_id: cut(requestId), method: 'GET', headers: headers.headers, resource_type: 'WebSocket', is_redirect: false }
    this.#emit('network_request', 'Network.webSocketWillSendHandshakeRequest', flight, headers.isCut, data)
  }

  #socketAnswered({ requestId, response }: Protocol.Network.WebSocketHandshakeResponseReceivedEvent): void {
    const flight = this.#flights.get(requestId)
    if (!flight) return
    flight.head = this.#head({ ...response, mimeType: '' })
    this.#tellAnswer(requestId, flight, undefined, 'Network.webSocketHandshakeResponseReceived')
    // No more is reported of it.
    this.#flights.take(requestId)
  }

  #socketFailed({ requestId, errorMessage }: Protocol.Network.WebSocketFrameErrorEvent): void {
    const flight = this.#flights.take(requestId)
    if (!flight) return
    const data = { request_id: cut(requestId), error_text: this.#clean(errorMessage, 1024), canceled: false, resource_type: 'WebSocket' }
    this.#emit('network_loading_failed', 'Network.webSocketFrameError', flight, false, data)
  }

  /** A request. Without `seen`, its beginning was not captured. */
  #flight(
    url: string,
    type: string | undefined,
    frameId: string | undefined,
    loaderId: string | undefined,
    seen: { method?: string; isMain?: boolean } = {},
  ): Flight {
    const { text, isCut } = this.#url(url)
    return {
      url: text,
      isUrlCut: isCut,
      version: this.#secrets.version,
      method: seen.method,
      resourceType: cut(type),
      frameId: frameId && cut(frameId),
      loaderId: cut(loaderId) || undefined,
      isMain: seen.isMain ?? false,
      bytes: 0,
      isFromMemory: false,
      isEndless: false,
    }
  }

  /** Takes over a request of another session. */
  #arrived(requestId: string): Flight | undefined {
    const found = this.#moving.get(requestId)
    if (!found) return undefined
    this.#moving.delete(requestId)
    if (!found.flights.take(requestId) || !this.#flights.add(requestId, found.flight)) return undefined
    return found.flight
  }

  #head({ status, statusText, mimeType, headers: given }: Pick<Protocol.Network.Response, 'status' | 'statusText' | 'mimeType' | 'headers'>): Head {
    const { headers, isCut, length } = scrubHeaders(given, this.#secrets)
    return { status: Math.trunc(status), status_text: this.#clean(statusText, 256), mime_type: this.#clean(mimeType, 128), headers, isCut, length }
  }

  #post({ postData, hasPostData }: Protocol.Network.Request): { text: string | undefined; isCut: boolean } {
    if (postData === undefined) return { text: undefined, isCut: hasPostData ?? false }
    // The bytes of a file are not text.
    return isBinary(postData) ? { text: undefined, isCut: false } : this.#secrets.scrubCut(postData, STRUCTURED_BYTES)
  }

  #clean = (text: unknown, max = SHORT_TEXT): string => this.#secrets.scrubCut(cut(text, MAX_RAW_TEXT), max).text

  /** Masks secrets that were learned meanwhile in the stored texts of a request. */
  #refresh(flight: Flight): void {
    const { version } = this.#secrets
    if (flight.version === version) return
    flight.version = version
    flight.url = this.#secrets.scrubAgain({ text: flight.url, isCut: flight.isUrlCut }).text
    const { head } = flight
    if (!head) return
    head.headers = scrubHeadersAgain(head.headers, head.isCut, this.#secrets)
    head.status_text = this.#secrets.scrub(head.status_text)
  }

  #url = (url: string): CutText => this.#secrets.scrubCut(url, MAX_URL)

  #emit(
    type: 'network_request' | 'network_response' | 'network_loading_failed' | 'proxy_error',
    event: string,
    flight: Flight,
    truncated: boolean,
    data: object,
  ): void {
    this.#refresh(flight)
    const { url, frameId, loaderId } = flight
    const more: Partial<Context> = { url, ...(frameId && { frame_id: frameId }), ...(loaderId && { loader_id: loaderId }) }
    const context = this.#target.context(more)
    this.#telemetry.emit({ type, source: cdpSource(event, context), data: { ...context, ...data }, truncated })
  }
}
