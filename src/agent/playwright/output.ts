// What a run prints, read from its process' outputs: bounded, and up to the mark that the worker sets at its end.
import type { Readable } from 'node:stream'

/** Of each output of a run this much is kept; the rest is read and dropped. */
export const MAX_OUTPUT_BYTES = 1024 * 1024
const FIRST_BYTES = 16 * 1024

/** The output of one run at a time. */
export class Output {
  #kept = Buffer.alloc(0)
  #length = 0
  #dropped = 0
  /** What may be the beginning of a mark. */
  #tail = Buffer.alloc(0)
  #mark: Buffer | undefined
  #marked = Promise.withResolvers<void>()
  /** Resolves when the process has closed it. */
  readonly ended: Promise<void>

  constructor(stream: Readable) {
    stream.on('data', (chunk: Buffer) => this.#add(chunk))
    this.ended = new Promise((resolve) => stream.on('close', resolve).on('error', () => resolve()))
  }

  /** From here on everything is of the run that ends with `mark`. */
  begin(mark: string): void {
    this.#kept = Buffer.alloc(FIRST_BYTES)
    this.#length = 0
    this.#dropped = 0
    this.#tail = Buffer.alloc(0)
    this.#mark = Buffer.from(mark)
    this.#marked = Promise.withResolvers()
  }

  /** Resolves when the run's mark has come. */
  get marked(): Promise<void> {
    return this.#marked.promise
  }

  /** What the run has printed. To be called once, at its end: then what might have become a mark is none. */
  take(): string {
    if (this.#mark) this.#keep(this.#tail)
    this.#mark = undefined
    const text = this.#kept.subarray(0, this.#length).toString()
    this.#kept = Buffer.alloc(0)
    return this.#dropped === 0 ? text : `${text}\n[${this.#dropped} more bytes were printed and are left out]\n`
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
