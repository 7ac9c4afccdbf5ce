// Answers that never end, or take their time between one line and the next: passed on as they come.
// Reading from Chromium's stream of a body waits until as much is there as was asked for, so these are let into the hidden page
// instead, as plain text in a sandbox, and Chromium tells of each piece on its way there.
import { Readable } from 'node:stream'
import { fault } from '../../http/fault.ts'
import { NO_LIMIT_MS, type CdpEvent } from './connection.ts'
import type { Header } from './headers.ts'
import type { HiddenPage } from './targets.ts'

const LIVE = /^\s*(text\/event-stream|application\/(x-ndjson|ndjson|jsonl|json-seq|stream\+json)|multipart\/x-mixed-replace)\s*(;|$)/i

/** Pieces come whether they are read or not. A reader who is so far behind is lost. */
const MAX_WAITING_BYTES = 4 * 1024 * 1024

/** The hidden page keeps what it has got. */
const MAX_BYTES = 64 * 1024 * 1024

export const isLive = (headers: readonly Header[]): boolean => headers.some(([name, value]) => name.toLowerCase() === 'content-type' && LIVE.test(value))

/** What makes any body harmless, and shown from its first byte. */
export const AS_TEXT = Object.entries({
  'content-type': 'text/plain',
  'x-content-type-options': 'nosniff',
  'content-security-policy': 'sandbox',
}).map(([name, value]) => ({ name, value }))

/** The body of one answer, from the events of the page's network session. */
export class LiveBody {
  readonly body: Readable
  readonly #page: HiddenPage
  readonly #requestId: string
  readonly #timer: NodeJS.Timeout
  #length = 0
  /** Bytes that came before Chromium was asked to tell them. */
  #untold = 0
  /** Pieces that come before those have been told. */
  #early: Buffer[] | undefined = []
  #ended = false

  /** `readMs` is the longest time without a piece; `onEnd` is called once. */
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
    // It may fail before anyone listens.
    this.body.on('error', () => {})
  }

  onEvent({ method, params }: CdpEvent): void {
    if (params.requestId !== this.#requestId) return
    if (method === 'Network.responseReceived') this.#begin()
    else if (method === 'Network.dataReceived' && typeof params.data === 'string') this.#add(Buffer.from(params.data, 'base64'))
    else if (method === 'Network.dataReceived') this.#untold += Number(params.dataLength)
    else if (method === 'Network.loadingFinished') this.#end()
    else if (method === 'Network.loadingFailed') this.body.destroy(fault.badGateway(`the target gave no whole answer (${String(params.errorText)})`))
  }

  #begin(): void {
    this.#page.connection.send<{ bufferedData: string }>('Network.streamResourceContent', { requestId: this.#requestId }, this.#page.network, NO_LIMIT_MS).then(
      ({ bufferedData }) => {
        const early = this.#early ?? []
        this.#early = undefined
        const beginning = Buffer.from(bufferedData, 'base64')
        if (beginning.length < this.#untold) this.body.destroy(fault.badGateway('the beginning of the answer was lost'))
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
    if (this.#length > MAX_BYTES) this.body.destroy(fault.badGateway(`the answer is a stream of more than ${MAX_BYTES} bytes`))
    else if (this.body.readableLength > MAX_WAITING_BYTES) this.body.destroy(fault.badGateway('the answer came faster than it was read'))
  }

  #end(): void {
    this.#ended = true
    if (!this.#early) this.body.push(null)
  }
}
