// CDP over the pipe: the agent's own connection to Chromium, which no client can close.
import type { Readable, Writable } from 'node:stream'
import { within } from '../../base/wait.ts'

/** Chromium answers in microseconds when idle; with five starting at once on two cores it took 3 s. */
const ANSWER_MS = 30_000

export interface CdpEvent {
  method: string
  params: Record<string, unknown>
  sessionId?: string
}

export interface CdpPipe {
  /** Sends a command. Rejects with Chromium's message, when the pipe ends, or after a timeout. */
  send<T = Record<string, unknown>>(method: string, params?: object, sessionId?: string): Promise<T>
  /** Returns the function that removes the listener. */
  on(listener: (event: CdpEvent) => void): () => void
}

interface Answer {
  id?: number
  result?: unknown
  error?: { message: string }
}

/** Speaks CDP (JSON messages, each ended by a NUL) over Chromium's file descriptors 3 and 4. */
export function cdpPipe(input: Writable, output: Readable): CdpPipe {
  const waiting = new Map<number, PromiseWithResolvers<unknown>>()
  const listeners = new Set<(event: CdpEvent) => void>()
  let lastId = 0
  let parts: Buffer[] = []
  let ended = false

  const onMessage = (text: string) => {
    const message = JSON.parse(text) as Answer & CdpEvent
    if (message.id === undefined) {
      for (const listener of listeners) alone(() => listener(message))
      return
    }
    const answer = waiting.get(message.id)
    waiting.delete(message.id)
    if (message.error) answer?.reject(new Error(message.error.message))
    else answer?.resolve(message.result)
  }
  const onEnd = () => {
    ended = true
    for (const answer of waiting.values()) answer.reject(new Error('Chromium closed its pipe'))
    waiting.clear()
  }
  output.on('data', (chunk: Buffer) => {
    let from = 0
    for (let to = chunk.indexOf(0); to >= 0; to = chunk.indexOf(0, from)) {
      parts.push(chunk.subarray(from, to))
      const text = Buffer.concat(parts).toString()
      alone(() => onMessage(text))
      parts = []
      from = to + 1
    }
    if (from < chunk.length) parts.push(chunk.subarray(from))
  })
  output.on('close', onEnd)
  output.on('error', onEnd)
  input.on('error', onEnd)

  return {
    on(listener) {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
    async send(method, params = {}, sessionId) {
      if (ended) throw new Error('Chromium closed its pipe')
      const answer = Promise.withResolvers<unknown>()
      const id = ++lastId
      waiting.set(id, answer)
      input.write(`${JSON.stringify({ id, method, params, sessionId })}\0`)
      try {
        return (await within(method, ANSWER_MS, answer.promise)) as never
      } finally {
        waiting.delete(id)
      }
    },
  }
}

/** Runs `work`. Its exception goes to the top-level handler, so the messages after this one are still read. */
function alone(work: () => void): void {
  try {
    work()
  } catch (error) {
    queueMicrotask(() => {
      throw error
    })
  }
}
