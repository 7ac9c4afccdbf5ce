// Passes bytes from one stream to another, with a limit on the pieces that wait. Streams limit bytes only, and each piece is a Buffer, which takes some 500
// bytes in addition to its content: a sender of single bytes would use far more memory than the limit.
import type { Readable, Writable } from 'node:stream'

/** Most pieces that wait for a receiver; with more, none are read for it. */
const MAX_PIECES = 256

/** Passes the pieces of `from` to `to`, no faster than `to` accepts them. `from` continues when `to` drains; the caller arranges that. */
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
 * Copies `from` to `to` until either has ended. The end of `from` ends `to`. Does not handle errors: the owners of the streams do. Returns a function that
 * stops the copying. Like the end of `to`, it pauses `from` and leaves it to its owner.
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

/** Makes a writer of `to`, such as a stream that is piped to it, wait when very many pieces wait in it. */
export function limitWaiting(to: Writable): void {
  const write = to.write.bind(to) as (chunk: unknown, ...rest: unknown[]) => boolean
  let waiting = 0
  to.write = (chunk: unknown, ...rest: unknown[]) => {
    waiting = to.writableLength === 0 ? 0 : waiting + 1
    // Only a piped source passes no callback, and waits.
    if (waiting < MAX_PIECES || rest.length > 0) return write(chunk, ...rest)
    write(chunk, () => to.emit('drain'))
    return false
  }
}
