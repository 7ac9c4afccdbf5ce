// The events of a runner, numbered and kept until the reader acknowledges them. A reader may disconnect and return.
import { abortable } from '../base/wait.ts'
import type { AppsFound, RunnerEvent } from './contract.ts'
import { MAX_UNREAD_BYTES } from './limits.ts'

/** An event without its number and time. */
export type News =
  | { type: 'log'; line: string }
  | { type: 'loaded'; apps: AppsFound }
  | { type: 'failed'; reason: string }
  | { type: 'result'; ok: boolean; output: string | null; reason: string | null }

/** The cost of an event besides its line, in bytes. */
const OVERHEAD = 128

export class Events {
  readonly #max: number
  readonly #kept: { seq: number; text: string; bytes: number }[] = []
  #seq = 0
  #bytes = 0
  #ended = false
  #changed = Promise.withResolvers<void>()
  readonly #sources = new Set<{ pause(): unknown; resume(): unknown }>()

  constructor(max: number = MAX_UNREAD_BYTES) {
    this.#max = max
  }

  log(line: string): void {
    this.#add({ type: 'log', line })
  }

  /** Adds the last event; later events are dropped. */
  end(news: Exclude<News, { type: 'log' }>): void {
    this.#add(news)
    this.#ended = true
  }

  get ended(): boolean {
    return this.#ended
  }

  /** From now on, pauses `source` while the queue is full; returns the function that stops this. */
  throttle(source: { pause(): unknown; resume(): unknown }): () => void {
    this.#sources.add(source)
    if (this.#isFull) source.pause()
    return () => void this.#sources.delete(source)
  }

  /** The reader has stored all events up to `seq`: drop them. */
  acknowledge(seq: number): void {
    const wasFull = this.#isFull
    const count = this.#kept.findIndex((event) => event.seq > seq)
    for (const event of this.#kept.splice(0, count === -1 ? this.#kept.length : count)) this.#bytes -= event.bytes
    if (wasFull && !this.#isFull) for (const source of this.#sources) source.resume()
  }

  /** Yields batches of lines after event `after`, never an empty one, until the last event has been sent. */
  async *follow(after: number, signal: AbortSignal): AsyncGenerator<string> {
    let seen = after
    while (!signal.aborted) {
      const first = this.#kept[0]?.seq ?? this.#seq + 1
      const news = this.#kept.slice(Math.max(0, seen + 1 - first), Math.max(0, seen + 1 - first) + BATCH)
      if (news.length > 0) {
        seen = news.at(-1)!.seq
        yield news.map(({ text }) => text).join('')
      } else if (this.#ended) return
      else await abortable(this.#changed.promise, signal).catch(() => {}) // it fails by the signal only, which ends the loop
    }
  }

  get #isFull(): boolean {
    return this.#bytes >= this.#max
  }

  #add(news: News): void {
    if (this.#ended) return
    const seq = ++this.#seq
    const text = `${JSON.stringify({ seq, at: new Date().toISOString(), ...news } satisfies RunnerEvent)}\n`
    const bytes = text.length + OVERHEAD
    const wasFull = this.#isFull
    this.#kept.push({ seq, text, bytes })
    this.#bytes += bytes
    if (!wasFull && this.#isFull) for (const source of this.#sources) source.pause()
    this.#changed.resolve()
    this.#changed = Promise.withResolvers()
  }
}

/** Lines per batch; each is up to 64 KiB. */
const BATCH = 64
