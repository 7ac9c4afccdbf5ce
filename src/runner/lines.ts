// Output cut into lines: bytes as programs print them become text that is bounded, and valid UTF-8.
import { MAX_LOG_LINE } from './limits.ts'

const LF = 10
const CR = 13

/** Collects bytes and gives `emit` every line of them, without its end; of a long line only what may be kept is held. */
export class Lines {
  readonly #emit: (line: string) => void
  readonly #max: number
  #parts: Buffer[] = []
  #held = 0
  /** Whether something of the line was dropped or held: a last line without its end counts, nothing at all does not. */
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

  /** The output is over: what has no end of line is a line, too. */
  end(): void {
    if (this.#begun) this.#flush()
  }

  /** One byte more than may be kept, so that a carriage return right behind the limit is seen as what it is. */
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

/** The text of `bytes`, no longer than `max` bytes of UTF-8, cut between characters; what is no UTF-8 is replaced. */
export function cut(bytes: Buffer, max: number): string {
  const text = whole(bytes, max).toString()
  // A replaced byte takes three.
  return text.length * 3 > max ? whole(Buffer.from(text), max).toString() : text
}

function whole(bytes: Buffer, max: number): Buffer {
  if (bytes.length <= max) return bytes
  let end = max
  // Back to the first byte of the character that would be cut; no character has more than four bytes.
  while (end > max - 4 && end > 0 && (bytes[end]! & 0xc0) === 0x80) end--
  return bytes.subarray(0, (bytes[end]! & 0xc0) === 0x80 ? max : end)
}
