// Streams limit the bytes that wait to be read, not the pieces. Each piece is a Buffer of its own, of some 500 bytes besides its content, so a sender
// of single bytes would take very much more memory than the limit says. And each takes a few microseconds, so it would take this process's time from everybody.
import type { IncomingMessage } from 'node:http'
import { Bucket } from './bucket.ts'

/** While so many wait, no more are read. One look at the connection may have brought ten thousand more. */
const MAX_PIECES = 1_024
/** After so many that were taken at once, the message waits for the next turn of the event loop. Node reads a connection up to 32 times in one turn, and nobody else is served meanwhile. */
const PIECES_PER_TURN = 512

/** A smaller piece costs more time than its bytes say: 3 us. In the list at the end of a zip each file has a hundred bytes. Programs that print lines send few. */
const TINY_BYTES = 256
/** How many tiny pieces all messages may have: a tenth of a core. What sends more is read later. */
const tiny = new Bucket({ perSecond: 100_000, atOnce: 200_000 })
/** They are counted by so many. */
const COUNTED = 512
/** Longest pause. A connection that is not read for longer could be taken for a dead one. */
const PAUSE_MS = 5_000

/** Stops reading a message from its connection while very many pieces of its body wait to be read, or all messages have brought very many tiny ones. */
export function limitPieces(message: IncomingMessage): void {
  // Private, and the only way: a stream asks for more until it has this many bytes.
  const state = (message as unknown as { _readableState: { highWaterMark: number } })._readableState
  const usual = state.highWaterMark
  const push = message.push.bind(message)
  /** Where each waiting piece ends, from `first` on. */
  let ends: number[] = []
  let first = 0
  let pushed = 0
  let small = 0
  let restsUntil = 0
  let inTurn = 0
  // The parser reads no more after a false, until some were taken.
  message.push = (chunk: Buffer | null, encoding?: BufferEncoding) => {
    if (chunk === null) return push(chunk, encoding)
    const hasRoom = push(chunk, encoding)
    if (chunk.length < TINY_BYTES && ++small === COUNTED) {
      small = 0
      const pauseMs = tiny.take(COUNTED)
      if (pauseMs > 0) restsUntil = performance.now() + Math.min(PAUSE_MS, pauseMs)
    }
    pushed += chunk.length
    ends.push(pushed)
    const read = pushed - message.readableLength
    while (first < ends.length && ends[first]! <= read) first++
    if (first === ends.length || first > MAX_PIECES) {
      ends = ends.slice(first)
      first = 0
    }
    const isMany = ends.length - first >= MAX_PIECES
    state.highWaterMark = isMany ? Math.ceil(message.readableLength / 2) : usual
    // Those that wait to be read have the limit above.
    if (message.readableLength === 0) inTurn++
    return hasRoom && !isMany && restsUntil === 0 && inTurn < PIECES_PER_TURN
  }
  const readOn = message._read.bind(message)
  // Asked for more, the message starts to read from its connection again.
  message._read = (size) => {
    const ms = restsUntil - performance.now()
    restsUntil = 0
    const goOn = () => message.destroyed || readOn(size)
    if (ms > 0) setTimeout(goOn, ms).unref()
    else if (inTurn >= PIECES_PER_TURN) setImmediate(goOn)
    else return readOn(size)
    inTurn = 0
  }
}
