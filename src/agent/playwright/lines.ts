// Reads messages, one per line. Node's readline also splits at U+2028, which JSON may contain.
import type { Readable } from 'node:stream'

/** Calls `onLine` with each line. If a line is longer than `maxBytes`, the last call passes undefined. */
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
