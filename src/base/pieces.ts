// Limits the pieces of a message that wait to be read. Streams limit the bytes only. Each piece is a Buffer, which takes some 500 bytes in addition to its
// content, so a sender of single bytes would use far more memory than the limit. Each also takes a few microseconds, so it would use up this process's time.
import type { IncomingMessage } from 'node:http'
import { Bucket } from './bucket.ts'

/** Most pieces that wait; with more, reading pauses. One read of the connection may have added ten thousand more. */
const MAX_PIECES = 1_024
/**
 * After this many pieces in one turn of the event loop, the message waits for the next turn. Node reads a connection up to 32 times in one turn, and serves no
 * other connection meanwhile.
 */
const PIECES_PER_TURN = 512

/**
 * A smaller piece counts as tiny. It costs more time than its bytes suggest: 3 us. In the list at the end of a zip each file has a hundred bytes. Programs that print
 * lines send few pieces.
 */
const TINY_BYTES = 256
/** Most tiny pieces of all messages: a tenth of a core. Messages above it are read later. */
const tiny = new Bucket({ perSecond: 100_000, atOnce: 200_000 })
/** They are counted in steps of this size. */
const COUNTED = 512
/** Longest pause. A connection that is not read for longer could be taken for a dead one. */
const PAUSE_MS = 5_000

/** Stops reading a message from its connection while very many pieces of its body wait to be read, or all messages together have very many tiny ones. */
export function limitPieces(message: IncomingMessage): void {
  // A private field, because there is no other way: a stream requests more until it has this many bytes.
  const state = (message as unknown as { _readableState: { highWaterMark: number } })._readableState
  const usual = state.highWaterMark
  const push = message.push.bind(message)
  /** The end of each waiting piece, from `first` on. */
  let ends: number[] = []
  let first = 0
  let pushed = 0
  let small = 0
  let restsUntil = 0
  let inTurn = 0
  // After a false, the parser reads no more until some pieces were read.
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
    // Pieces that wait to be read have the limit above.
    if (message.readableLength === 0) inTurn++
    return hasRoom && !isMany && restsUntil === 0 && inTurn < PIECES_PER_TURN
  }
  const readOn = message._read.bind(message)
  // A request for more makes the message read from its connection again.
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
