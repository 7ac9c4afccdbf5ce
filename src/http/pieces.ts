// Streams limit the bytes that wait to be read, not the pieces. Each piece is a Buffer of its own, of some 500 bytes besides its content, so a sender
// of single bytes would take very much more memory than the limit says.
import type { IncomingMessage } from 'node:http'

/** So many wait in an answer only if they have fewer than 16 bytes on average. No agent and no runner sends such. */
const MAX_ANSWER_PIECES = 4_096
/** While so many of a request wait, no more are read. One look at the connection may have brought ten thousand more. */
const MAX_REQUEST_PIECES = 1_024

/** Calls `refuse` when far more pieces of an answer wait to be read than a server of ours sends. */
export function limitAnswerPieces(answer: IncomingMessage, refuse: () => void): void {
  onPieces(answer, (waiting) => {
    if (waiting > MAX_ANSWER_PIECES) refuse()
    return true
  })
}

/** Stops reading a request while very many pieces of its body wait. Callers may send their bodies as they like, so none is refused. */
export function limitRequestPieces(request: IncomingMessage): void {
  // Private, and the only way: a stream asks for more until it has this many bytes.
  const state = (request as unknown as { _readableState: { highWaterMark: number } })._readableState
  const usual = state.highWaterMark
  onPieces(request, (waiting) => {
    const isMany = waiting >= MAX_REQUEST_PIECES
    state.highWaterMark = isMany ? Math.ceil(request.readableLength / 2) : usual
    return !isMany
  })
}

/** After each piece calls `mayGoOn` with the number of those that wait. While it returns false, the parser reads no more. */
function onPieces(message: IncomingMessage, mayGoOn: (waiting: number) => boolean): void {
  const push = message.push.bind(message)
  /** Where each waiting piece ends, from `first` on. */
  let ends: number[] = []
  let first = 0
  let pushed = 0
  message.push = (chunk: Buffer | null, encoding?: BufferEncoding) => {
    if (chunk === null) return push(chunk, encoding)
    const hasRoom = push(chunk, encoding)
    pushed += chunk.length
    ends.push(pushed)
    const read = pushed - message.readableLength
    while (first < ends.length && ends[first]! <= read) first++
    if (first === ends.length || first > MAX_REQUEST_PIECES) {
      ends = ends.slice(first)
      first = 0
    }
    return mayGoOn(ends.length - first) && hasRoom
  }
}
