// CDP over the pipe: the agent's own connection to Chromium, which no client can close.
import type { Readable, Writable } from 'node:stream'
import { makeCdp, type Cdp } from './cdp.ts'

/**
 * Bytes of one message. Answers are small, but a page can make some of them long (its address has up to 2 MiB, a script's result any length), and
 * the agent holds a message several times while reading it.
 */
const MAX_MESSAGE_BYTES = 64 * 1024 * 1024
/** Limit on one event, in bytes. Events are not requested: a page can cause any number of any length, and reading one blocks the agent. */
const MAX_EVENT_BYTES = 4 * 1024 * 1024
/** The beginning of each answer of Chromium. Every other message is an event. */
const ANSWER = Buffer.from('{"id":')
/** This many bytes of a too large message are kept, for the number of its command or the name of the event. */
const BEGINNING_BYTES = 128

/** Speaks CDP (JSON messages, each ended by a NUL) over Chromium's file descriptors 3 and 4. */
export function cdpOverPipe(input: Writable, output: Readable, maxBytes = MAX_MESSAGE_BYTES, maxEventBytes = Math.min(maxBytes, MAX_EVENT_BYTES)): Cdp {
  const { cdp, receiver } = makeCdp((text) => input.write(`${text}\0`))
  let parts: Buffer[] = []
  let bytes = 0
  /** Limit on the current message, once its kind is known. */
  let limit = 0
  const add = (part: Buffer) => {
    bytes += part.length
    if (limit === 0) {
      parts.push(part)
      if (bytes < ANSWER.length) return
      const beginning = Buffer.concat(parts, ANSWER.length)
      limit = beginning.equals(ANSWER) ? maxBytes : maxEventBytes
      if (bytes > limit) parts = [Buffer.concat(parts, BEGINNING_BYTES)]
    } else if (bytes <= limit) parts.push(part)
    else if (bytes - part.length <= limit) parts = [Buffer.concat([...parts, part], BEGINNING_BYTES)]
  }
  const finish = () => {
    const whole = Buffer.concat(parts)
    if (bytes <= (limit || maxEventBytes)) receiver.onMessage(whole.toString())
    else receiver.onTooLarge(whole.toString())
    parts = []
    bytes = limit = 0
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
