// CDP over the pipe: the agent's own connection to Chromium, which no client can close.
import type { Readable, Writable } from 'node:stream'
import { makeCdp, type Cdp } from './cdp.ts'

/**
 * Bytes of one message. Answers are small, but a page can make some of them long (its address has up to 2 MiB, a script's result any length), and
 * the agent holds a message several times while reading it.
 */
const MAX_MESSAGE_BYTES = 64 * 1024 * 1024
/** Of a larger message, this much is kept, for the number of its command. */
const BEGINNING_BYTES = 64

/** Speaks CDP (JSON messages, each ended by a NUL) over Chromium's file descriptors 3 and 4. */
export function cdpOverPipe(input: Writable, output: Readable, maxBytes = MAX_MESSAGE_BYTES): Cdp {
  const { cdp, receiver } = makeCdp((text) => input.write(`${text}\0`))
  let parts: Buffer[] = []
  let bytes = 0
  const add = (part: Buffer) => {
    bytes += part.length
    if (bytes <= maxBytes) parts.push(part)
    else parts = [Buffer.concat([...parts, part], BEGINNING_BYTES)]
  }
  const finish = () => {
    const whole = Buffer.concat(parts)
    if (bytes <= maxBytes) receiver.onMessage(whole.toString())
    else receiver.onTooLarge(whole.toString())
    parts = []
    bytes = 0
  }
  output.on('data', (chunk: Buffer) => {
    let from = 0
    for (let to = chunk.indexOf(0); to >= 0; to = chunk.indexOf(0, from)) {
      add(chunk.subarray(from, to))
      finish()
      from = to + 1
    }
    if (from < chunk.length) add(chunk.subarray(from))
  })
  output.on('close', () => receiver.onEnd())
  output.on('error', receiver.onEnd)
  input.on('error', receiver.onEnd)
  return cdp
}
