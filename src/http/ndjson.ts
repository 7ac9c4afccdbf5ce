// NDJSON: JSON values, one per line.
import { Readable } from 'node:stream'

export const NDJSON_TYPE = 'application/x-ndjson'

/**
 * Lines that were encoded before, each with its line feed. They are sent in place of a value, for streams in which encoding each value again would cost too
 * much.
 */
export class EncodedLines {
  readonly text: string
  constructor(text: string) {
    this.text = text
  }
}

/** The lines of `values`. They are read as fast as the reader takes them, so a slow reader delays only itself. An error breaks the answer off. */
export const lineStream = (values: AsyncIterable<unknown>): Readable => Readable.from(encoded(values), { objectMode: false, highWaterMark: 256 * 1024 })

async function* encoded(values: AsyncIterable<unknown>): AsyncGenerator<string> {
  for await (const value of values) yield value instanceof EncodedLines ? value.text : `${JSON.stringify(value)}\n`
}
