// What a watch has seen and its readers have not: a bounded queue in which nothing is lost without a word.
import { fault } from '../../http/fault.ts'
import type { WatchEvent } from './contract.ts'

/** What one watch keeps for its readers: events, and the characters of their paths. */
export const MAX_EVENTS = 10_000
export const MAX_CHARS = 2 * 1024 * 1024

/** The event that says that others are missing. */
export const gap = (code: 'overflow' | 'limit', message: string): WatchEvent => ({
  event: 'error',
  error: { code, message },
  timestamp: new Date().toISOString(),
})

interface Reader {
  /** The number of the first event that it has not been given for certain, and of the first that it has not asked for. */
  next: number
  asked: number
  wake: () => void
}

const charsOf = (event: WatchEvent): number => ('path' in event ? event.path.length + event.name.length : event.error.message.length)

export class Backlog {
  /** By number, the oldest first. */
  readonly #events = new Map<number, WatchEvent>()
  readonly #readers = new Set<Reader>()
  #first = 0
  #end = 0
  #chars = 0
  /** Where a reader begins when there is no other. */
  #unread = 0
  #ended = false
  #failure: unknown

  push(event: WatchEvent): void {
    if (this.#ended || this.#saysNothingNew(event)) return
    this.#events.set(this.#end++, event)
    this.#chars += charsOf(event)
    while (this.#events.size > MAX_EVENTS || this.#chars > MAX_CHARS) {
      this.#chars -= charsOf(this.#events.get(this.#first)!)
      this.#events.delete(this.#first++)
    }
    this.#wake()
  }

  /** No more events will come; `failure` is what readers are told in the end. */
  end(failure?: unknown): void {
    if (this.#ended) return
    this.#ended = true
    this.#failure = failure
    this.#wake()
  }

  /**
   * The events, until they end or `signal` aborts. A reader who is alone begins with those that nobody has read yet, another
   * where the slowest reader is: that may be the same client's last connection, whose end has not been heard of yet. One who is too slow, or comes too late, is told how many events it has missed.
   */
  async *read(signal: AbortSignal): AsyncGenerator<WatchEvent> {
    const start = this.#readers.size === 0 ? this.#unread : Math.min(...[...this.#readers].map(({ next }) => next))
    const reader: Reader = { next: start, asked: start, wake: () => {} }
    this.#readers.add(reader)
    const onAbort = () => reader.wake()
    signal.addEventListener('abort', onAbort)
    try {
      while (!signal.aborted) {
        if (reader.next < this.#first) {
          yield gap('overflow', `${this.#first - reader.next} events were lost, for they came faster than they were read; list the directory again`)
          reader.next = this.#first
        } else if (reader.next < this.#end) {
          reader.asked = reader.next + 1
          yield this.#events.get(reader.next)!
          reader.next++
        } else if (this.#failure) throw fault.unavailable('the watch has failed', this.#failure)
        else if (this.#ended) return
        else await new Promise<void>((resolve) => (reader.wake = resolve))
      }
    } finally {
      signal.removeEventListener('abort', onAbort)
      this.#readers.delete(reader)
      if (this.#readers.size === 0) this.#unread = reader.next
    }
  }

  /** Whether it has ended and everything has been read. */
  get finished(): boolean {
    return this.#ended && this.#readers.size === 0 && this.#unread >= this.#end
  }

  /** A write to what was written last, of which nobody has heard yet. */
  #saysNothingNew(event: WatchEvent): boolean {
    const last = this.#events.get(this.#end - 1)
    if (!last || !('type' in last && 'type' in event)) return false
    if (event.type !== 'WRITE' || last.type !== 'WRITE' || last.path !== event.path) return false
    return [...this.#readers].every(({ asked }) => asked < this.#end)
  }

  #wake(): void {
    for (const reader of this.#readers) reader.wake()
  }
}
