// Splits a program's output into lines of bounded length and valid UTF-8.
import { MAX_LOG_LINE } from './limits.ts'

const LF = 10
const CR = 13

/** Collects bytes and calls `emit` with every line, without its line end. Of a long line only the part that may be kept is held. */
export class Lines {
  readonly #emit: (line: string) => void
  readonly #max: number
  #parts: Buffer[] = []
  #held = 0
  /** Whether the current line has received bytes, kept or dropped. The last line is emitted without a line end if it has. */
  #begun = false

  constructor(emit: (line: string) => void, max: number = MAX_LOG_LINE) {
    this.#emit = emit
    this.#max = max
  }

  write(chunk: Buffer): void {
    let from = 0
    for (;;) {
      const end = chunk.indexOf(LF, from)
      this.#hold(chunk.subarray(from, end === -1 ? chunk.length : end))
      if (end === -1) return
      this.#flush()
      from = end + 1
    }
  }

  /** The output has ended: emit the last line even when it has no line end. */
  end(): void {
    if (this.#begun) this.#flush()
  }

  /** Holds one byte more than the limit, to recognize a carriage return right after it. */
  #hold(piece: Buffer): void {
    if (piece.length > 0) this.#begun = true
    const room = this.#max + 1 - this.#held
    if (room <= 0 || piece.length === 0) return
    const kept = Buffer.from(piece.subarray(0, room))
    this.#parts.push(kept)
    this.#held += kept.length
  }

  #flush(): void {
    const line = Buffer.concat(this.#parts)
    this.#parts = []
    this.#held = 0
    this.#begun = false
    this.#emit(cut(line.at(-1) === CR ? line.subarray(0, -1) : line, this.#max))
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
