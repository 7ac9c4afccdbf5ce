// One request in a hidden page: a navigation with the caller's method, headers and body, its redirects, and its answer. The page never shows the answer.
import { Readable } from 'node:stream'
import { NO_LIMIT_MS, sleep, WaitTimeout, within } from '../../base/wait.ts'
import { fault } from '../../http/fault.ts'
import { CdpGone, CdpRefusal, type CdpSession } from '../chromium/cdp.ts'
import type { Method, Params, Protocol, Result } from '../chromium/cdp-protocol.ts'
import { afterRedirect, merge, type Header } from './headers.ts'
import { AS_TEXT, isLive, LiveBody } from './endless.ts'
import type { HiddenPage } from './targets.ts'

export interface CurlRequest {
  url: string
  method: string
  /** Added to the browser's own. */
  headers: Header[]
  body: Buffer | undefined
}

export interface CurlAnswer {
  status: number
  headers: Header[]
  /** The decoded bytes. The caller must read them to the end or destroy the stream. */
  body: Readable
}

type Paused = Protocol.Fetch.RequestPausedEvent

/**
 * Bytes of one read from Chromium. Chromium answers only when that many bytes have arrived, so the first read is small, and slow
 * answers are read in small pieces. Larger reads than `most` were not faster.
 */
const READ_BYTES = { least: 64, most: 256 * 1024 }
/** After a read that was quicker than QUICK_MS the next is larger; after one that was slower than SLOW_MS it is smaller. */
const QUICK_MS = 100
const SLOW_MS = 500

/** A reader that takes nothing for this long loses the answer: it occupies a page that other requests wait for. */
const UNREAD_MS = 60_000

/** The raw headers come in other events than the answer, and usually before it. If they are late, wait this long. */
const RAW_HEADERS_MS = 250

/** An aborted navigation ends within milliseconds. */
const END_MS = 2_000

const REDIRECTS = [301, 302, 303, 307, 308]

/** Chromium's errors for URLs that it never requests. */
const BAD_URL = /ERR_(UNSAFE_PORT|INVALID_URL|DISALLOWED_URL_SCHEME|UNKNOWN_URL_SCHEME)/

const isWeb = ({ protocol }: URL): boolean => protocol === 'http:' || protocol === 'https:'

export class Exchange {
  readonly #page: HiddenPage
  readonly #signal: AbortSignal
  readonly #readMs: number
  readonly #outcome = Promise.withResolvers<{ requestId: string }>()
  /** The request to send to the current target of the redirects. */
  #hop: CurlRequest
  #url: URL
  #networkId: string | undefined
  /** For the raw headers: how many requests went to the network before this hop, how many in all, and the headers received. */
  #sentBefore = 0
  #sent = 0
  #received: Record<string, string>[] = []
  #head: { status: number; headers: Header[] } | undefined
  #live: LiveBody | undefined
  #broken: string | undefined
  #isOut = false
  #navigated: Promise<unknown> = Promise.resolve()
  #release: (clean: boolean) => void
  #leave: () => void = () => {}

  /**
   * `readMs` is the longest time without a piece of the answer's body. `release` is called once, when the page is free.
   * `clean` means that the page can be used again.
   */
  constructor(page: HiddenPage, request: CurlRequest, signal: AbortSignal, readMs: number, release: (clean: boolean) => void) {
    this.#page = page
    this.#hop = { ...request }
    this.#url = new URL(request.url)
    this.#signal = signal
    this.#readMs = readMs
    this.#release = (clean) => {
      this.#release = () => {}
      release(clean)
      this.#leave()
    }
    this.#outcome.promise.catch(() => {})
  }

  /** Whether the browser may have sent the request. Until then, another page can safely try it again. */
  get isOut(): boolean {
    return this.#isOut
  }

  /** Sends the request and resolves with the head of its answer. @throws a Fault that says why there is no answer */
  async run(): Promise<CurlAnswer> {
    const { body } = this.#page
    try {
      this.#leave = this.#listen()
      this.#navigated = this.#navigate()
      const { requestId } = await this.#patiently(this.#outcome.promise)
      const { status, headers } = this.#head!
      // Free the memory: after the answer has begun, no redirect can need the body again.
      this.#hop.body = undefined
      const cookies = await this.#setCookies()
      if (this.#live) return { status, headers: [...headers, ...cookies], body: this.#ending(this.#live.body) }
      const { stream } = await this.#patiently(this.#send(body, 'Fetch.takeResponseBodyAsStream', { requestId }))
      return { status, headers: [...headers, ...cookies], body: this.#read(stream, requestId) }
    } catch (error) {
      this.#release(false)
      throw error
    }
  }

  #send<M extends Method>(session: CdpSession, method: M, params: Params<M>): Promise<Result<M>> {
    return session.send(method, params, { limitMs: NO_LIMIT_MS })
  }

  #patiently<T>(promise: Promise<T>): Promise<T> {
    return within('an answer', NO_LIMIT_MS, promise, this.#signal)
  }

  async #navigate(): Promise<void> {
    try {
      const { errorText } = await this.#send(this.#page.network, 'Page.navigate', { url: this.#url.href })
      if (errorText !== undefined) this.#fail(errorText)
    } catch (error) {
      this.#outcome.reject(error instanceof CdpRefusal ? fault.field('url', 'is a URL that the browser does not accept') : error)
    }
  }

  /** Needed as well as the rejected commands: Chromium may have answered all of them, even the navigation, before the page closes. */
  #onGone(): void {
    this.#outcome.reject(new CdpGone('the hidden page was closed'))
    this.#live?.body.destroy(ended())
  }

  #fail(errorText: string): void {
    this.#outcome.reject(BAD_URL.test(errorText) ? fault.field('url', `is a URL that the browser refuses to request (${errorText})`) : unanswered(errorText))
  }

  /** Listens to both sessions. Returns the function that ends this: the next exchange uses the same sessions. */
  #listen(): () => void {
    const { network, body } = this.#page
    const leaving = [
      network.on('Fetch.requestPaused', (paused) => this.#onPaused(paused)),
      // Answer no password prompt, as curl does. The browser would open a dialog.
      network.on('Fetch.authRequired', ({ requestId }) =>
        this.#proceed('Fetch.continueWithAuth', { requestId, authChallengeResponse: { response: 'CancelAuth' } }),
      ),
      network.on('Network.requestWillBeSentExtraInfo', ({ requestId }) => {
        if (requestId === this.#networkId) this.#sent++
      }),
      network.on('Network.responseReceivedExtraInfo', ({ requestId, headers }) => {
        if (requestId === this.#networkId) this.#received.push(headers)
      }),
      network.on('Network.loadingFailed', ({ requestId, errorText }) => {
        if (requestId === this.#networkId) this.#fail(errorText)
      }),
      body.on('Fetch.requestPaused', (paused) => this.#onBody(paused)),
    ]
    const onGone = () => this.#onGone()
    for (const { detached } of [network, body]) {
      detached.addEventListener('abort', onGone)
      leaving.push(() => detached.removeEventListener('abort', onGone))
    }
    return () => leaving.forEach((leave) => leave())
  }

  // ---- next to the network ----

  #onPaused(paused: Paused): void {
    const { requestId, responseStatusCode: status, responseErrorReason } = paused
    if (responseErrorReason !== undefined) {
      // After the answer has begun, this is the only sign that it broke off.
      if (this.#head) this.#broken = responseErrorReason
      return this.#proceed('Fetch.continueRequest', { requestId })
    }
    if (status === undefined) return this.#onRequest(paused)
    const location = locationOf(paused)
    if (location !== undefined && !this.#follow(location, status)) return
    if (location !== undefined) return this.#proceed('Fetch.continueRequest', { requestId })
    this.#head = { status, headers: (paused.responseHeaders ?? []).map(({ name, value }) => [name, value]) }
    if (!isLive(this.#head.headers) || !this.#networkId) return this.#proceed('Fetch.continueRequest', { requestId })
    this.#live = new LiveBody(this.#page, this.#networkId, this.#readMs, () => this.#release(false))
    this.#proceed('Fetch.continueResponse', { requestId, responseCode: 200, responseHeaders: AS_TEXT })
  }

  #onRequest({ requestId, networkId, request, redirectedRequestId }: Paused): void {
    this.#networkId = networkId
    this.#sentBefore = this.#sent
    // For an http URL the browser tries https first, as if a user had typed it. A caller means http, and one request. So refuse https; the
    // browser then falls back to http by itself.
    if (this.#url.protocol === 'http:' && request.url.startsWith('https:'))
      return this.#proceed('Fetch.failRequest', { requestId, errorReason: 'ConnectionRefused' })
    const { method, headers, body } = this.#hop
    const overrides = {
      ...(redirectedRequestId === undefined && method !== 'GET' && { method }),
      ...(redirectedRequestId === undefined && body && { postData: body.toString('base64') }),
      headers: merge(request.headers, headers)?.map(([name, value]) => ({ name, value })),
    }
    this.#isOut = true
    this.#proceed('Fetch.continueRequest', { requestId, ...overrides })
  }

  /** Prepares the request to the redirect's target. Returns false if the redirect must not be followed. */
  #follow(location: string, status: number): boolean {
    const to = URL.parse(location, this.#url.href)
    if (to && !isWeb(to)) {
      this.#outcome.reject(fault.badGateway(`the target redirects to a ${to.protocol} URL; only http and https are supported`))
      return false
    }
    // The browser itself refuses a location that is no URL.
    if (!to) return true
    const { method, headers, body } = this.#hop
    const becomesGet = (status === 303 && method !== 'GET' && method !== 'HEAD') || ((status === 301 || status === 302) && method === 'POST')
    this.#hop = {
      url: to.href,
      method: becomesGet ? 'GET' : method,
      headers: afterRedirect(headers, { sameOrigin: to.origin === this.#url.origin, bodyDropped: becomesGet }),
      body: becomesGet ? undefined : body,
    }
    this.#url = to
    return true
  }

  #proceed<M extends Method>(method: M, params: Params<M>): void {
    this.#send(this.#page.network, method, params).catch((error: unknown) => this.#outcome.reject(refused(error)))
  }

  /** Chromium reports Set-Cookie only in the raw headers. */
  async #setCookies(): Promise<Header[]> {
    // The answer came from the cache: nothing was sent, so no raw headers will come.
    if (this.#sent === this.#sentBefore) return []
    const end = performance.now() + RAW_HEADERS_MS
    while (this.#received.length < this.#sent && performance.now() < end) await sleep(1, this.#signal)
    const raw = Object.entries(this.#received.at(-1) ?? {}).find(([name]) => name.toLowerCase() === 'set-cookie')
    return (raw?.[1].split('\n') ?? []).map((value) => ['Set-Cookie', value])
  }

  // ---- the answer ----

  #onBody(paused: Paused): void {
    const isAnswer = paused.responseErrorReason === undefined && locationOf(paused) === undefined
    if (isAnswer) this.#outcome.resolve(paused)
    if (isAnswer && !this.#live) return
    this.#send(this.#page.body, 'Fetch.continueRequest', { requestId: paused.requestId }).catch((error: unknown) => this.#outcome.reject(error))
  }

  #read(stream: string, requestId: string): Readable {
    let over = false
    let size = READ_BYTES.least
    let unread: NodeJS.Timeout | undefined
    const next = async (): Promise<Buffer | null> => {
      const began = performance.now()
      const piece = this.#send(this.#page.body, 'IO.read', { handle: stream, size })
      const { data, base64Encoded, eof } = await within('a piece of the answer', this.#readMs, piece).catch((error: unknown) => {
        throw error instanceof WaitTimeout ? fault.deadline(this.#readMs) : error instanceof CdpGone ? ended(error) : error
      })
      const took = performance.now() - began
      if (took < QUICK_MS) size = Math.min(size * 4, READ_BYTES.most)
      else if (took > SLOW_MS) size = Math.max(size / 4, READ_BYTES.least)
      if (data !== '') return Buffer.from(data, base64Encoded ? 'base64' : 'utf8')
      return eof ? null : next()
    }
    const finish = async () => {
      // This round trip also lets pending events arrive: the other session reports an answer that broke off.
      await this.#send(this.#page.body, 'IO.close', { handle: stream })
      if (this.#broken !== undefined) throw unanswered(`the answer broke off: ${this.#broken}`)
      await this.#send(this.#page.body, 'Fetch.failRequest', { requestId, errorReason: 'Aborted' })
      await within('the end of a navigation', END_MS, this.#navigated)
      over = true
    }
    const body = new Readable({
      highWaterMark: READ_BYTES.most,
      read() {
        clearTimeout(unread)
        next()
          .then(async (chunk) => {
            if (chunk === null) await finish()
            if (!body.push(chunk) && chunk && !body.destroyed) unread = setTimeout(() => body.destroy(fault.badGateway('the answer was not read')), UNREAD_MS)
          })
          .catch((error: unknown) => body.destroy(error as Error))
      },
      destroy: (error, done) => {
        clearTimeout(unread)
        this.#release(over)
        done(error)
      },
    })
    return this.#ending(body)
  }

  /** Ends the body when the caller's signal aborts. */
  #ending(body: Readable): Readable {
    const onAbort = () => body.destroy(this.#signal.reason as Error)
    this.#signal.addEventListener('abort', onAbort, { once: true })
    // The body may fail before its reader listens; without a listener Node would throw. The reader gets the error when it reads.
    return body.on('error', () => {}).on('close', () => this.#signal.removeEventListener('abort', onAbort))
  }
}

/** The location that Chromium will follow, if any. */
function locationOf({ responseStatusCode, responseHeaders }: Paused): string | undefined {
  if (!REDIRECTS.includes(responseStatusCode ?? 0)) return undefined
  return responseHeaders?.find(({ name }) => name.toLowerCase() === 'location')?.value || undefined
}

/** For a page that a client closed, or a Chromium that ended, when the request may already be sent. */
export const ended = (cause?: unknown) => fault.unavailable('the browser ended the request', cause)

const unanswered = (why: string) => fault.badGateway(`the target did not send a complete answer (${why})`)

/** Names the header that Chromium refused. */
function refused(error: unknown): unknown {
  if (!(error instanceof CdpRefusal)) return error
  const [, kind, name] = /^(Unsafe|Invalid) header: (.*)$/s.exec(error.message) ?? []
  if (name !== undefined) return fault.field(`headers.${name}`, kind === 'Unsafe' ? 'can only be set by the browser; leave it out' : 'is not a valid header')
  return fault.badGateway(`the browser did not continue the request: ${error.message}`)
}
