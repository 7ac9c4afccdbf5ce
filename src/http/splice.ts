// Joins two sockets byte by byte. WebSocket frames are not parsed or re-framed. Only their ends are tracked, so that a last frame of our own (the
// reason for the end) can be placed between two frames.
import { addAbortListener, once } from 'node:events'
import type { Duplex } from 'node:stream'
import { passing } from '../base/pipe.ts'

/** Why a spliced WebSocket ends, for its close frame. */
export interface CloseReason {
  /** WebSocket close code: 1000-1015, or 4000-4999 for our own. */
  code: number
  /** Becomes the JSON reason of the close frame; at most 123 bytes as text. */
  reason: Record<string, string | boolean>
}

/** Receives the findings of a {@link FrameBoundary}. */
export interface FrameSink {
  begins(header: readonly number[]): void
  /** A piece of a payload: the range of this chunk. */
  payload(chunk: Uint8Array, from: number, to: number): void
  ends(): void
}

/**
 * Tracks where frames end in a stream of WebSocket frames. Costs one subtraction per chunk while a payload runs, and a look at 2-14 header bytes per frame.
 */
export class FrameBoundary {
  readonly #sink: FrameSink | undefined
  #payloadLeft = 0
  #header: number[] = []
  #closed = false
  /** Messages that have ended, or will with the present frame. Pings, pongs and closes do not count. */
  messages = 0

  constructor(sink?: FrameSink) {
    this.#sink = sink
  }

  /** Whether the next byte would begin a frame. */
  get isBetweenFrames(): boolean {
    return this.#payloadLeft === 0 && this.#header.length === 0
  }

  /** Whether the server has sent a close frame of its own. */
  get isClosed(): boolean {
    return this.#closed
  }

  push(chunk: Uint8Array): void {
    let at = 0
    while (at < chunk.length) {
      if (this.#payloadLeft > 0) {
        const step = Math.min(this.#payloadLeft, chunk.length - at)
        this.#sink?.payload(chunk, at, at + step)
        this.#payloadLeft -= step
        at += step
        if (this.#payloadLeft === 0) this.#sink?.ends()
        continue
      }
      const header = this.#header
      header.push(chunk[at++]!)
      if (header.length < 2) continue
      const short = header[1]! & 0x7f
      const size = 2 + (short === 126 ? 2 : short === 127 ? 8 : 0) + (header[1]! & 0x80 ? 4 : 0)
      if (header.length < size) continue
      const opcode = header[0]! & 0x0f
      if (opcode === 8) this.#closed = true
      if (opcode < 8 && header[0]! >= 0x80) this.messages++
      this.#payloadLeft = short < 126 ? short : header.slice(2, short === 126 ? 4 : 10).reduce((sum, byte) => sum * 256 + byte, 0)
      this.#header = []
      this.#sink?.begins(header)
      if (this.#payloadLeft === 0) this.#sink?.ends()
    }
  }
}

/** An unmasked close frame, as servers send it. */
export function closeFrame({ code, reason }: CloseReason): Buffer {
  const text = Buffer.from(JSON.stringify(reason)).subarray(0, 123)
  const frame = Buffer.alloc(4 + text.length)
  frame[0] = 0x88
  frame[1] = 2 + text.length
  frame.writeUInt16BE(code, 2)
  text.copy(frame, 4)
  return frame
}

/** Receives each piece before it is passed on. */
export interface Witness {
  /** A piece from the client. */
  sent(chunk: Uint8Array): void
  /** A piece from upstream. */
  received(chunk: Uint8Array): void
}

/** Time for a client to receive the close frame before its socket is destroyed. */
const CLOSE_LINGER_MS = 1_000

/**
 * Joins `client` and `upstream` (both past their handshakes) until either ends. When upstream ends, or `signal` aborts, the client gets a close
 * frame with the result of `why()`, if the stream stands between two frames. `head` is what upstream has already sent. `witness` sees each
 * piece before it is passed on. `boundary` knows where the frames to the client end. Resolves when both sockets are closed, with which of them ended first.
 */
export async function splice(
  client: Duplex,
  upstream: Duplex,
  head: Buffer,
  why: () => Promise<CloseReason> | CloseReason,
  signal?: AbortSignal,
  witness?: Partial<Witness>,
  boundary = new FrameBoundary(),
): Promise<'client' | 'upstream'> {
  const gone = Promise.withResolvers<'client' | 'upstream'>()
  const onClientGone = () => gone.resolve('client')
  const onUpstreamGone = () => gone.resolve('upstream')
  const toClient = passing(upstream, client)
  const toUpstream = passing(client, upstream)
  const forward = (chunk: Buffer) => {
    witness?.received?.(chunk)
    boundary.push(chunk)
    toClient(chunk)
  }
  if (head.length > 0) forward(head)
  upstream.on('data', forward)
  client.on('drain', () => upstream.resume())
  const backward = (chunk: Buffer) => {
    witness?.sent?.(chunk)
    toUpstream(chunk)
  }
  client.on('data', backward)
  upstream.on('drain', () => client.resume())
  // A broken socket closes. The other side cannot use the cause.
  client.on('error', () => client.destroy())
  upstream.on('error', () => upstream.destroy())
  // A WebSocket that is closed in one direction is closed. An upstream that no longer answers would otherwise keep it open for ever.
  client.on('end', onClientGone)
  client.on('close', onClientGone)
  upstream.on('end', onUpstreamGone)
  upstream.on('close', onUpstreamGone)
  // The sockets may have ended before the listeners were added.
  if (client.destroyed || client.readableEnded) onClientGone()
  if (upstream.destroyed || upstream.readableEnded) onUpstreamGone()
  using _aborted = signal && addAbortListener(signal, () => onUpstreamGone())

  const first = await gone.promise
  upstream.off('data', forward)
  // The client's data from now on answers the end: mainly its close frame.
  client.off('data', backward)
  upstream.destroy()
  if (!client.destroyed) {
    const closed = once(client, 'close').catch(() => {})
    if (boundary.isBetweenFrames && !boundary.isClosed) client.write(closeFrame(await why()))
    client.end()
    client.resume()
    const timer = setTimeout(() => client.destroy(), CLOSE_LINGER_MS)
    await closed
    clearTimeout(timer)
  }
  return first
}
