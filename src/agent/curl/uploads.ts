// Bodies on their way to a target: Chromium takes them whole, so they are held, but only one large one at a time.
import type { Readable } from 'node:stream'
import { Mutex } from '../../base/mutex.ts'
import { within } from '../../base/wait.ts'
import { fault } from '../../http/fault.ts'
import { NO_LIMIT_MS } from './connection.ts'

/** A body up to here is held at once; the rest of a larger one is read when no other large one is held. */
const SMALL_BYTES = 256 * 1024

export class Uploads {
  readonly #large = new Mutex()
  readonly #limitBytes: number

  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes
  }

  /** Reads `body` and lends it to `work` for as long as that takes; an empty one is none. @throws 413 over the limit, or the signal's reason */
  async hold<T>(body: Readable | undefined, signal: AbortSignal, work: (bytes: Buffer | undefined) => Promise<T>): Promise<T> {
    const chunks: Buffer[] = []
    let length = 0
    const pieces = body?.[Symbol.asyncIterator]() as AsyncIterator<Buffer> | undefined
    /** Reads until more than `bytes` are there; false when the body has ended before. */
    const readPast = async (bytes: number): Promise<boolean> => {
      while (pieces && length <= bytes) {
        const piece = await within('a piece of the body', NO_LIMIT_MS, pieces.next(), signal)
        if (piece.done) return false
        chunks.push(piece.value)
        length += piece.value.length
      }
      return pieces !== undefined
    }
    const lend = () => work(length === 0 ? undefined : Buffer.concat(chunks.splice(0), length))
    if (!(await readPast(SMALL_BYTES))) return lend()
    return this.#large.run(async () => {
      if (await readPast(this.#limitBytes)) throw fault.tooLarge(this.#limitBytes)
      return lend()
    }, signal)
  }
}
