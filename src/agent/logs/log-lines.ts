// Log lines in the form for readers.
import { LineSplitter, type Line } from '../../base/lines.ts'

/** The longest line in bytes. A longer one is cut and marked. */
const MAX_LINE_BYTES = 64 * 1024

const RETURN = 0x0d
const utf8 = new TextDecoder('utf-8', { ignoreBOM: true })

export class Lines {
  readonly #splitter = new LineSplitter(MAX_LINE_BYTES)

  /** The lines that end in `data`. Invalid UTF-8 becomes U+FFFD. */
  add(data: Buffer): string[] {
    return Array.from(this.#splitter.add(data), textOf)
  }

  /** The last line, when it has no line end. */
  rest(): string[] {
    const line = this.#splitter.rest()
    return line ? [textOf(line)] : []
  }
}

function textOf({ bytes, dropped }: Line): string {
  const text = utf8.decode(dropped === 0 && bytes.at(-1) === RETURN ? bytes.subarray(0, -1) : bytes)
  return dropped === 0 ? text : `${text}… [${dropped} bytes of this line were cut]`
}
