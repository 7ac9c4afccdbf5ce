// Endless or slow answers (event streams, JSON lines): each piece is passed on when it arrives.
// A read from Chromium's body stream waits until all requested bytes have arrived. So these answers are loaded into the hidden page
// instead, as plain text in a sandbox, and Chromium reports each piece in an event.
import { Readable } from 'node:stream'
import { fault } from '../../http/fault.ts'
import { NO_LIMIT_MS } from '../../base/wait.ts'
import type { Protocol } from '../chromium/cdp-protocol.ts'
import type { Header } from './headers.ts'
import type { HiddenPage } from './targets.ts'

const LIVE = /^\s*(text\/event-stream|application\/(x-ndjson|ndjson|jsonl|json-seq|stream\+json)|multipart\/x-mixed-replace)\s*(;|$)/i

/** Pieces arrive even if nobody reads them. A reader that falls this far behind loses the answer. */
const MAX_WAITING_BYTES = 4 * 1024 * 1024

/** The limit of one answer, because the hidden page keeps everything it has loaded. */
const MAX_BYTES = 64 * 1024 * 1024

export const isLive = (headers: readonly Header[]): boolean => headers.some(([name, value]) => name.toLowerCase() === 'content-type' && LIVE.test(value))

/** Response headers that make any body harmless, and make Chromium load it from its first byte. */
export const AS_TEXT = Object.entries({
  'content-type': 'text/plain',
  'x-content-type-options': 'nosniff',
  'content-security-policy': 'sandbox',
}).map(([name, value]) => ({ name, value }))

/** The body of one answer, built from the events of the page's network session. */
export class LiveBody {
  readonly body: Readable
  readonly #page: HiddenPage
  readonly #requestId: string
  readonly #timer: NodeJS.Timeout
  #length = 0
  /** Bytes that arrived before Chromium was asked to report their content. */
  #pending = 0
  /** Pieces that arrive before Chromium has reported those bytes. */
  #early: Buffer[] | undefined = []
  #ended = false

  /** `readMs` is the longest time without a piece. `onEnd` is called once, and must end the page's sessions: the body listens to them until then. */
  constructor(page: HiddenPage, requestId: string, readMs: number, onEnd: () => void) {
    this.#page = page
    this.#requestId = requestId
    this.#timer = setTimeout(() => this.body.destroy(fault.deadline(readMs)), readMs)
    this.body = new Readable({
      read() {},
      destroy: (error, done) => {
        clearTimeout(this.#timer)
        onEnd()
        done(error)
      },
    })
    // The body may fail before its reader listens; without a listener Node would throw.
    this.body.on('error', () => {})
    const { network } = page
    const mine = <P extends { requestId: string }>(listener: (params: P) => void) => {
      return (params: P) => {
        if (params.requestId === requestId) listener(params)
      }
    }
    const onData = ({ data, dataLength }: Protocol.Network.DataReceivedEvent) => {
      if (data === undefined) this.#pending += dataLength
      else this.#add(Buffer.from(data, 'base64'))
    }
    const onFailed = ({ errorText }: Protocol.Network.LoadingFailedEvent) =>
      this.body.destroy(fault.badGateway(`the target did not send a complete answer (${errorText})`))
    network.on(
      'Network.responseReceived',
      mine(() => this.#begin()),
    )
    network.on('Network.dataReceived', mine(onData))
    network.on(
      'Network.loadingFinished',
      mine(() => this.#end()),
    )
    network.on('Network.loadingFailed', mine(onFailed))
  }

  #begin(): void {
    this.#page.network.send('Network.streamResourceContent', { requestId: this.#requestId }, { limitMs: NO_LIMIT_MS }).then(
      ({ bufferedData }) => {
        const early = this.#early ?? []
        this.#early = undefined
        const beginning = Buffer.from(bufferedData, 'base64')
        if (beginning.length < this.#pending) this.body.destroy(fault.badGateway('the beginning of the answer was lost'))
        for (const piece of [beginning, ...early]) this.#add(piece)
        if (this.#ended) this.body.push(null)
      },
      (error: unknown) => this.body.destroy(error as Error),
    )
  }

  #add(piece: Buffer): void {
    if (this.#early) return void this.#early.push(piece)
    this.#timer.refresh()
    this.#length += piece.length
    if (piece.length > 0) this.body.push(piece)
    if (this.#length > MAX_BYTES) this.body.destroy(fault.badGateway(`the answer is a stream of more than ${MAX_BYTES} bytes, which is the limit`))
    else if (this.body.readableLength > MAX_WAITING_BYTES) this.body.destroy(fault.badGateway('the answer arrived faster than the caller read it'))
  }

  #end(): void {
    this.#ended = true
    if (!this.#early) this.body.push(null)
  }
}
