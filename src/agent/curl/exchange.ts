// One request in a hidden page: the navigation that is made to carry it, its redirects, and its answer, which is never shown.
import { Readable } from 'node:stream'
import { sleep, WaitTimeout, within } from '../../base/wait.ts'
import { fault } from '../../http/fault.ts'
import { CdpRefusal, NO_LIMIT_MS, PageGone, type CdpEvent } from './connection.ts'
import { afterRedirect, merge, type Header } from './headers.ts'
import { AS_TEXT, isLive, LiveBody } from './live.ts'
import type { HiddenPage } from './targets.ts'

export interface CurlRequest {
  url: string
  method: string
  /** On top of the browser's own. */
  headers: Header[]
  body: Buffer | undefined
}

export interface CurlAnswer {
  status: number
  headers: Header[]
  /** The decoded bytes. Must be read to its end or destroyed. */
  body: Readable
}

/** What Fetch.requestPaused tells. */
interface Paused {
  requestId: string
  networkId?: string
  request: { url: string; headers: Record<string, string> }
  responseStatusCode?: number
  responseErrorReason?: string
  responseHeaders?: { name: string; value: string }[]
  redirectedRequestId?: string
}

/**
 * Bytes read from Chromium at once. It waits until so many are there: the first are few, and what comes slowly is read in small pieces.
 * More made nothing faster.
 */
const READ_BYTES = { least: 64, most: 256 * 1024 }
/** A piece that came in less is followed by a larger one; one that took more, by a smaller one. */
const QUICK_MS = 100
const SLOW_MS = 500

/** A reader who takes nothing for so long has gone away or forgotten the answer; others wait for the page that it holds. */
const UNREAD_MS = 60_000

/** The raw headers come by another way than the answer, and first; so long is waited when they do not. */
const RAW_HEADERS_MS = 250

/** A navigation that was ended says so in some milliseconds. */
const END_MS = 2_000

const REDIRECTS = [301, 302, 303, 307, 308]

/** Errors of Chromium's that tell of a URL that it would never ask for. */
const BAD_URL = /ERR_(UNSAFE_PORT|INVALID_URL|DISALLOWED_URL_SCHEME|UNKNOWN_URL_SCHEME)/

const isWeb = ({ protocol }: URL): boolean => protocol === 'http:' || protocol === 'https:'

export class Exchange {
  readonly #page: HiddenPage
  readonly #signal: AbortSignal
  readonly #readMs: number
  readonly #outcome = Promise.withResolvers<{ requestId: string }>()
  /** The request as it is to be on the way to where the redirects have led so far. */
  #hop: CurlRequest
  #url: URL
  #networkId: string | undefined
  /** Raw headers: how many requests went to the network, before this hop and in all, and what came back. */
  #sentBefore = 0
  #sent = 0
  #received: Record<string, string>[] = []
  #head: { status: number; headers: Header[] } | undefined
  #live: LiveBody | undefined
  #broken: string | undefined
  #isOut = false
  #navigated: Promise<unknown> = Promise.resolve()
  #release: (clean: boolean) => void

  /**
   * `readMs` is the longest time without a piece of the answer's body. `release` is called once, when the page is free;
   * `clean` tells that it can be used again.
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
    }
    this.#outcome.promise.catch(() => {})
  }

  /** Whether the request may have left the browser; until then it can be made again in another page. */
  get isOut(): boolean {
    return this.#isOut
  }

  /** Sends the request and resolves with the head of its answer. @throws a Fault that tells why there is none */
  async run(): Promise<CurlAnswer> {
    const { connection, network, body } = this.#page
    try {
      const onGone = () => this.#onGone()
      connection.listen(network, (event) => this.#onNetwork(event), onGone)
      connection.listen(body, (event) => this.#onBody(event), onGone)
      void connection.ended.then(() => this.#outcome.reject(new PageGone('the browser ended while the request was on its way')))
      this.#navigated = this.#navigate()
      const { requestId } = await this.#patiently(this.#outcome.promise)
      const { status, headers } = this.#head!
      // No redirect can ask for it again.
      this.#hop.body = undefined
      const cookies = await this.#setCookies()
      if (this.#live) return { status, headers: [...headers, ...cookies], body: this.#ending(this.#live.body) }
      const { stream } = await this.#patiently(this.#send<{ stream: string }>(body, 'Fetch.takeResponseBodyAsStream', { requestId }))
      return { status, headers: [...headers, ...cookies], body: this.#read(stream, requestId) }
    } catch (error) {
      this.#release(false)
      throw error
    }
  }

  #send<T>(session: string, method: string, params: object): Promise<T> {
    return this.#page.connection.send<T>(method, params, session, NO_LIMIT_MS)
  }

  #patiently<T>(promise: Promise<T>): Promise<T> {
    return within('an answer', NO_LIMIT_MS, promise, this.#signal)
  }

  async #navigate(): Promise<void> {
    try {
      const { errorText } = await this.#send<{ errorText?: string }>(this.#page.network, 'Page.navigate', { url: this.#url.href })
      if (errorText !== undefined) this.#fail(errorText)
    } catch (error) {
      this.#outcome.reject(error instanceof CdpRefusal ? fault.field('url', 'is not one that the browser takes') : error)
    }
  }

  /** Chromium may have answered every command by then, the navigation too. */
  #onGone(): void {
    this.#outcome.reject(new PageGone('the hidden page was closed'))
    this.#live?.body.destroy(ended())
  }

  /** Chromium's own name of an error, as a fault. */
  #fail(errorText: string): void {
    this.#outcome.reject(BAD_URL.test(errorText) ? fault.field('url', `is not one that the browser asks for (${errorText})`) : unanswered(errorText))
  }

  // ---- next to the network ----

  #onNetwork(event: CdpEvent): void {
    const { method, params } = event
    this.#live?.onEvent(event)
    switch (method) {
      case 'Fetch.requestPaused':
        return this.#onPaused(params as unknown as Paused)
      case 'Fetch.authRequired':
        // Who asks for a password gets none, as from curl; the browser would open a dialog.
        return this.#proceed('Fetch.continueWithAuth', { requestId: params.requestId, authChallengeResponse: { response: 'CancelAuth' } })
      case 'Network.requestWillBeSentExtraInfo':
        if (params.requestId === this.#networkId) this.#sent++
        return
      case 'Network.responseReceivedExtraInfo':
        if (params.requestId === this.#networkId) this.#received.push(params.headers as Record<string, string>)
        return
      case 'Network.loadingFailed':
        if (params.requestId === this.#networkId) this.#fail(String(params.errorText))
    }
  }

  #onPaused(paused: Paused): void {
    const { requestId, responseStatusCode: status, responseErrorReason } = paused
    if (responseErrorReason !== undefined) {
      // After the answer has begun this is the only sign that it did not end as it should.
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
    // The browser tries https first where a user has typed http. A caller means what was said, and once: the browser goes back by itself.
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

  /** Plans the way to where an answer redirects. False when that is not to be followed. */
  #follow(location: string, status: number): boolean {
    const to = URL.parse(location, this.#url.href)
    if (to && !isWeb(to)) {
      this.#outcome.reject(fault.badGateway(`the target redirects to ${to.protocol}, which is neither http nor https`))
      return false
    }
    // What is no URL at all the browser refuses by itself.
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

  #proceed(method: string, params: object): void {
    this.#send(this.#page.network, method, params).catch((error: unknown) => this.#outcome.reject(refused(error)))
  }

  /** Set-Cookie is in the raw headers only. */
  async #setCookies(): Promise<Header[]> {
    // From the cache: nothing was sent, nothing raw comes.
    if (this.#sent === this.#sentBefore) return []
    const end = performance.now() + RAW_HEADERS_MS
    while (this.#received.length < this.#sent && performance.now() < end) await sleep(1, this.#signal)
    const raw = Object.entries(this.#received.at(-1) ?? {}).find(([name]) => name.toLowerCase() === 'set-cookie')
    return (raw?.[1].split('\n') ?? []).map((value) => ['Set-Cookie', value])
  }

  // ---- the answer ----

  #onBody({ method, params }: CdpEvent): void {
    if (method !== 'Fetch.requestPaused') return
    const paused = params as unknown as Paused
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
      const piece = this.#send<{ data: string; base64Encoded?: boolean; eof: boolean }>(this.#page.body, 'IO.read', { handle: stream, size })
      const { data, base64Encoded, eof } = await within('a piece of the answer', this.#readMs, piece).catch((error: unknown) => {
        throw error instanceof WaitTimeout ? fault.deadline(this.#readMs) : error instanceof PageGone ? ended(error) : error
      })
      const took = performance.now() - began
      if (took < QUICK_MS) size = Math.min(size * 4, READ_BYTES.most)
      else if (took > SLOW_MS) size = Math.max(size / 4, READ_BYTES.least)
      if (data !== '') return Buffer.from(data, base64Encoded ? 'base64' : 'utf8')
      return eof ? null : next()
    }
    const finish = async () => {
      // Also lets come what is on its way: an answer that broke off is told of on the other session.
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

  /** The body, which ends with the caller. */
  #ending(body: Readable): Readable {
    const onAbort = () => body.destroy(this.#signal.reason as Error)
    this.#signal.addEventListener('abort', onAbort, { once: true })
    // It may fail before anyone listens; whoever reads it then hears of it.
    return body.on('error', () => {}).on('close', () => this.#signal.removeEventListener('abort', onAbort))
  }
}

/** Where an answer redirects, as Chromium sees it. */
function locationOf({ responseStatusCode, responseHeaders }: Paused): string | undefined {
  if (!REDIRECTS.includes(responseStatusCode ?? 0)) return undefined
  return responseHeaders?.find(({ name }) => name.toLowerCase() === 'location')?.value || undefined
}

/** A client of the session has closed the page, or Chromium has ended, after the request may have been sent. */
export const ended = (cause?: unknown) => fault.unavailable('the browser ended the request', cause)

const unanswered = (why: string) => fault.badGateway(`the target gave no whole answer (${why})`)

/** Chromium's refusal of a header names it. */
function refused(error: unknown): unknown {
  if (!(error instanceof CdpRefusal)) return error
  const [, kind, name] = /^(Unsafe|Invalid) header: (.*)$/s.exec(error.message) ?? []
  if (name !== undefined) return fault.field(`headers.${name}`, kind === 'Unsafe' ? 'is for the browser alone to set' : 'is not a valid header')
  return fault.badGateway(`the browser did not go on with the request: ${error.message}`)
}
