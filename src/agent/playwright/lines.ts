// Messages as lines. (Node's own reader of lines also ends one at U+2028, which JSON may hold.)
import type { Readable } from 'node:stream'

/** Calls `onLine` with each line; with undefined, once and last, when one gets longer than `maxBytes`. */
export function readLines(stream: Readable, maxBytes: number, onLine: (line: string | undefined) => void): void {
  let parts: Buffer[] = []
  let length = 0
  const onData = (chunk: Buffer) => {
    let from = 0
    for (let to = chunk.indexOf(10); to >= 0; to = chunk.indexOf(10, from)) {
      parts.push(chunk.subarray(from, to))
      onLine(Buffer.concat(parts).toString())
      parts = []
      length = 0
      from = to + 1
    }
    parts.push(chunk.subarray(from))
    length += chunk.length - from
    if (length <= maxBytes) return
    stream.off('data', onData)
    onLine(undefined)
  }
  stream.on('data', onData)
}
