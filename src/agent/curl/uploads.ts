// Bodies of requests to a target. Chromium takes a body as a whole, so it is held in memory, but only one large body at a time.
import type { Readable } from 'node:stream'
import { Mutex } from '../../base/mutex.ts'
import { NO_LIMIT_MS, within } from '../../base/wait.ts'
import { fault } from '../../http/fault.ts'

/** A body up to this size is read immediately. The rest of a larger one is read when no other large body is held. */
const SMALL_BYTES = 256 * 1024

export class Uploads {
  readonly #large = new Mutex()
  readonly #limitBytes: number

  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes
  }

  /** Reads `body` and holds it while `work` runs. An empty body counts as none. @throws 413 above the limit, or the signal's reason */
  async hold<T>(body: Readable | undefined, signal: AbortSignal, work: (bytes: Buffer | undefined) => Promise<T>): Promise<T> {
    const chunks: Buffer[] = []
    let length = 0
    const pieces = body?.[Symbol.asyncIterator]() as AsyncIterator<Buffer> | undefined
    /** Reads until more than `bytes` have arrived. Returns false if the body ends before that. */
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
