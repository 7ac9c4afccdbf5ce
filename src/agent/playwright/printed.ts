// The output of a run, read from its process up to the mark that the worker prints at the end. The size is limited.
import type { Readable } from 'node:stream'

/** The limit for each output of a run. The rest is read and dropped. */
export const MAX_OUTPUT_BYTES = 1024 * 1024
const FIRST_BYTES = 16 * 1024

export class Output {
  #kept = Buffer.alloc(0)
  #length = 0
  #dropped = 0
  /** The last bytes, which may be the beginning of the mark. */
  #tail = Buffer.alloc(0)
  #mark: Buffer | undefined
  #marked = Promise.withResolvers<void>()
  /** Resolves when the process has closed its output. */
  readonly ended: Promise<void>

  constructor(stream: Readable) {
    stream.on('data', (chunk: Buffer) => this.#add(chunk))
    this.ended = new Promise((resolve) => stream.on('close', resolve).on('error', () => resolve()))
  }

  /** Everything from here on belongs to the run that ends with `mark`. */
  begin(mark: string): void {
    this.#kept = Buffer.alloc(FIRST_BYTES)
    this.#length = 0
    this.#dropped = 0
    this.#tail = Buffer.alloc(0)
    this.#mark = Buffer.from(mark)
    this.#marked = Promise.withResolvers()
  }

  get marked(): Promise<void> {
    return this.#marked.promise
  }

  /** The output of the run. Call it once, at the end of the run: it counts an incomplete mark as output. */
  take(): string {
    if (this.#mark) this.#keep(this.#tail)
    this.#mark = undefined
    const text = this.#kept.subarray(0, this.#length).toString()
    this.#kept = Buffer.alloc(0)
    return this.#dropped === 0 ? text : `${text}\n[${this.#dropped} more bytes were dropped]\n`
  }

  #add(chunk: Buffer): void {
    if (!this.#mark) return
    const data = this.#tail.length > 0 ? Buffer.concat([this.#tail, chunk]) : chunk
    const end = data.indexOf(this.#mark)
    const sure = end >= 0 ? end : Math.max(0, data.length - this.#mark.length + 1)
    this.#keep(data.subarray(0, sure))
    this.#tail = Buffer.from(data.subarray(sure))
    if (end < 0) return
    this.#mark = undefined
    this.#marked.resolve()
  }

  #keep(data: Buffer): void {
    const kept = data.subarray(0, MAX_OUTPUT_BYTES - this.#length)
    const length = this.#length + kept.length
    if (length > this.#kept.length) {
      const larger = Buffer.alloc(Math.min(MAX_OUTPUT_BYTES, Math.max(length, this.#kept.length * 2)))
      this.#kept.copy(larger)
      this.#kept = larger
    }
    kept.copy(this.#kept, this.#length)
    this.#length = length
    this.#dropped += data.length - kept.length
  }
}
