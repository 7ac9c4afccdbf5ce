// Splits bytes into lines. Only the beginning of a line that is too long is held.

/** The longest line in bytes. A longer one is cut and marked. */
export const MAX_LINE_BYTES = 64 * 1024

const NEWLINE = 0x0a
const RETURN = 0x0d
const utf8 = new TextDecoder('utf-8', { ignoreBOM: true })

export class Lines {
  #pieces: Buffer[] = []
  #held = 0
  #cut = 0

  /** The lines that end in `data`. Invalid UTF-8 becomes U+FFFD. */
  add(data: Buffer): string[] {
    const lines: string[] = []
    let from = 0
    for (let to = data.indexOf(NEWLINE); to !== -1; to = data.indexOf(NEWLINE, from)) {
      this.#hold(data.subarray(from, to))
      lines.push(this.#take())
      from = to + 1
    }
    this.#hold(data.subarray(from))
    return lines
  }

  /** The last line, when it has no line end. */
  rest(): string[] {
    return this.#held + this.#cut === 0 ? [] : [this.#take()]
  }

  #hold(data: Buffer): void {
    const kept = data.subarray(0, MAX_LINE_BYTES - this.#held)
    this.#cut += data.length - kept.length
    if (kept.length === 0) return
    this.#held += kept.length
    // Copy, because the caller may reuse its buffer.
    this.#pieces.push(Buffer.from(kept))
    if (this.#pieces.length > 64) this.#pieces = [Buffer.concat(this.#pieces)]
  }

  #take(): string {
    const bytes = Buffer.concat(this.#pieces, this.#held)
    const cut = this.#cut
    this.#pieces = []
    this.#held = this.#cut = 0
    const text = utf8.decode(cut === 0 && bytes.at(-1) === RETURN ? bytes.subarray(0, -1) : bytes)
    return cut === 0 ? text : `${text}… [${cut} bytes of this line were cut]`
  }
}
