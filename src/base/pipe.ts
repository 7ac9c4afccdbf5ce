// Passes bytes from one stream to another, with a limit on the pieces that wait. Streams limit bytes only, and each piece is a Buffer of its own, of some 500 bytes besides
// its content: a sender of single bytes would take very much more memory than the limit says.
import type { Readable, Writable } from 'node:stream'

/** While so many pieces wait for a receiver, no more are taken for it. */
const MAX_PIECES = 256

/** What passes the pieces of `from` to `to`, no faster than that takes them. `from` goes on when `to` drains, which its caller arranges. */
export function passing(from: Readable, to: Writable, goOn = () => void from.resume()): (chunk: Buffer) => void {
  let waiting = 0
  return (chunk) => {
    waiting = to.writableLength === 0 ? 0 : waiting + 1
    if (waiting < MAX_PIECES) {
      if (!to.write(chunk)) from.pause()
      return
    }
    from.pause()
    to.write(chunk, goOn)
  }
}

/**
 * Reads `from` and passes it to `to` until either has ended; the end of `from` ends `to`. Errors are their owner's. Returns what stops it, which the end of `to` does as well: `from` is
 * paused then, and its owner's again.
 */
export function pipe(from: Readable, to: Writable): () => void {
  let isOn = true
  const resume = () => void (isOn && from.resume())
  const finish = () => to.end()
  const pass = passing(from, to, resume)
  const stop = () => {
    if (!isOn) return
    isOn = false
    from.off('data', pass).off('end', finish).pause()
    to.off('drain', resume).off('close', stop)
  }
  from.on('data', pass).once('end', finish)
  to.on('drain', resume).once('close', stop)
  // It may have been paused before.
  from.resume()
  return stop
}

/** Has a writer of `to`, such as a stream that is piped to it, wait when very many pieces wait in it. */
export function limitWaiting(to: Writable): void {
  const write = to.write.bind(to) as (chunk: unknown, ...rest: unknown[]) => boolean
  let waiting = 0
  to.write = (chunk: unknown, ...rest: unknown[]) => {
    waiting = to.writableLength === 0 ? 0 : waiting + 1
    // Only what is piped gives no callback, and waits.
    if (waiting < MAX_PIECES || rest.length > 0) return write(chunk, ...rest)
    write(chunk, () => to.emit('drain'))
    return false
  }
}
