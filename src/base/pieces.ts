// Streams limit the bytes that wait to be read, not the pieces. Each piece is a Buffer of its own, of some 500 bytes besides its content, so a sender
// of single bytes would take very much more memory than the limit says.
import type { IncomingMessage } from 'node:http'

/** While so many wait, no more are read. One look at the connection may have brought ten thousand more. */
const MAX_PIECES = 1_024

/** Stops reading a message from its connection while very many pieces of its body wait to be read. */
export function limitPieces(message: IncomingMessage): void {
  // Private, and the only way: a stream asks for more until it has this many bytes.
  const state = (message as unknown as { _readableState: { highWaterMark: number } })._readableState
  const usual = state.highWaterMark
  const push = message.push.bind(message)
  /** Where each waiting piece ends, from `first` on. */
  let ends: number[] = []
  let first = 0
  let pushed = 0
  // The parser reads no more after a false, until some were taken.
  message.push = (chunk: Buffer | null, encoding?: BufferEncoding) => {
    if (chunk === null) return push(chunk, encoding)
    const hasRoom = push(chunk, encoding)
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
    return hasRoom && !isMany
  }
}
