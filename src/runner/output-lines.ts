// Lines of a program's output, of bounded length and in valid UTF-8.
import { LineSplitter, type Line } from '../base/lines.ts'
import { MAX_LOG_LINE } from './limits.ts'

const CR = 13

/** Collects bytes and calls `emit` with every line, without its line end. Of a long line only the part that may be kept is held. */
export class Lines {
  readonly #emit: (line: string) => void
  readonly #max: number
  readonly #splitter: LineSplitter

  constructor(emit: (line: string) => void, max: number = MAX_LOG_LINE) {
    this.#emit = emit
    this.#max = max
    // One byte more than the limit, to recognize a carriage return right after it.
    this.#splitter = new LineSplitter(max + 1)
  }

  write(chunk: Buffer): void {
    for (const line of this.#splitter.add(chunk)) this.#tell(line)
  }

  /** The output has ended: emit the last line even when it has no line end. */
  end(): void {
    const line = this.#splitter.rest()
    if (line) this.#tell(line)
  }

  #tell({ bytes }: Line): void {
    this.#emit(cut(bytes.at(-1) === CR ? bytes.subarray(0, -1) : bytes, this.#max))
  }
}

/** Decodes `bytes` to at most `max` bytes of UTF-8, cut between characters. Invalid bytes become U+FFFD. */
export function cut(bytes: Buffer, max: number): string {
  const text = whole(bytes, max).toString()
  // U+FFFD takes three bytes.
  return text.length * 3 > max ? whole(Buffer.from(text), max).toString() : text
}

function whole(bytes: Buffer, max: number): Buffer {
  if (bytes.length <= max) return bytes
  let end = max
  // Go back to the first byte of the character that would be cut; a character has at most four bytes.
  while (end > max - 4 && end > 0 && (bytes[end]! & 0xc0) === 0x80) end--
  return bytes.subarray(0, (bytes[end]! & 0xc0) === 0x80 ? max : end)
}
