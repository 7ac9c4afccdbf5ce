// Splits bytes into lines of bounded length. Only a line feed ends one: Node's readline also splits at U+2028, which JSON may contain.
import type { Readable } from 'node:stream'
import { Gathered } from './gathered.ts'

const LINE_FEED = 0x0a

export interface Line {
  /** Without the line feed. Valid until more bytes are added. */
  bytes: Buffer
  /** The number of bytes of the line that are missing in `bytes`, because it was too long. */
  dropped: number
}

export class LineSplitter {
  readonly #max: number
  #held = new Gathered()
  #dropped = 0

  /** Of a line of more than `max` bytes only the beginning is kept. */
  constructor(max: number) {
    this.#max = max
  }

  /** The lines that end in `data`. Read all of them: at its end the generator keeps the rest after the last line. */
  *add(data: Buffer): Generator<Line> {
    let from = 0
    for (let to = data.indexOf(LINE_FEED); to !== -1; to = data.indexOf(LINE_FEED, from)) {
      const piece = data.subarray(from, to)
      from = to + 1
      if (this.#length === 0 && piece.length <= this.#max) yield { bytes: piece, dropped: 0 }
      else {
        this.#hold(piece)
        yield this.#take()
      }
    }
    this.#hold(data.subarray(from))
  }

  /** The last line, when it has no line feed. */
  rest(): Line | undefined {
    return this.#length === 0 ? undefined : this.#take()
  }

  /** Whether the line that has not ended yet is too long. */
  get isTooLong(): boolean {
    return this.#dropped > 0
  }

  get #length(): number {
    return this.#held.length + this.#dropped
  }

  #hold(piece: Buffer): void {
    const kept = piece.subarray(0, this.#max - this.#held.length)
    this.#dropped += piece.length - kept.length
    // The first piece is copied, because the caller may reuse its buffer; Gathered copies the others.
    if (kept.length > 0) this.#held.add(this.#held.length === 0 ? Buffer.from(kept) : kept)
  }

  #take(): Line {
    const line = { bytes: this.#held.bytes, dropped: this.#dropped }
    this.#held = new Gathered()
    this.#dropped = 0
    return line
  }
}

/** Calls `onLine` with each line of a stream. When a line is longer than `maxBytes`, the last call passes undefined. */
export function readLines(stream: Readable, maxBytes: number, onLine: (line: string | undefined) => void): void {
  const lines = new LineSplitter(maxBytes)
  const giveUp = () => {
    stream.off('data', onData)
    onLine(undefined)
  }
  const onData = (chunk: Buffer) => {
    for (const { bytes, dropped } of lines.add(chunk)) {
      if (dropped > 0) return giveUp()
      onLine(bytes.toString())
    }
    if (lines.isTooLong) giveUp()
  }
  stream.on('data', onData)
}
