// The queue between a watch and its readers. Its size is limited. Lost events are reported to the readers.
import { addAbortListener } from 'node:events'
import { fault } from '../../http/fault.ts'
import type { WatchEvent } from './contract.ts'

/** Limits of one watch's queue: events, and the characters of their paths. */
export const MAX_EVENTS = 10_000
export const MAX_CHARS = 2 * 1024 * 1024

/** The event that reports lost events. */
export const gap = (code: 'overflow' | 'limit', message: string): WatchEvent => ({
  event: 'error',
  error: { code, message },
  timestamp: new Date().toISOString(),
})

interface Reader {
  /** `next` is the first event that the reader may not have received; `asked` is the first that it has not requested. */
  next: number
  asked: number
  /** It has got an event and has not requested the next one: its connection is full, or it is about to request. */
  isBlocked: boolean
  wake: () => void
}

const charsOf = (event: WatchEvent): number => ('path' in event ? event.path.length + event.name.length : event.error.message.length)

export class Backlog {
  /** By number, oldest first. */
  readonly #events = new Map<number, WatchEvent>()
  readonly #readers = new Set<Reader>()
  #first = 0
  #end = 0
  #chars = 0
  /** Where the next reader begins when no other is connected. */
  #unread = 0
  /** Whether the last reader disconnected with unsent events in its connection. */
  #hasLost = false
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

  /** No more events will come; `failure` is thrown to readers after the last event. */
  end(failure?: unknown): void {
    if (this.#ended) return
    this.#ended = true
    this.#failure = failure
    this.#wake()
  }

  /**
   * Yields the events until they end or `signal` aborts. A single reader begins with the events that no reader has read. An additional reader begins where the
   * slowest one is, because that one may be the same client's previous connection, not yet noticed as closed. A reader that is too slow, or comes too late,
   * gets the number of missed events. A reader after a full connection is told that the events in that connection are lost.
   */
  async *read(signal: AbortSignal): AsyncGenerator<WatchEvent> {
    const slowest = [...this.#readers].reduce<Reader | undefined>((a, b) => (a && a.next <= b.next ? a : b), undefined)
    const start = slowest?.next ?? this.#unread
    const hasLost = slowest?.isBlocked ?? this.#hasLost
    const reader: Reader = { next: start, asked: start, isBlocked: false, wake: () => {} }
    this.#readers.add(reader)
    using _aborted = addAbortListener(signal, () => reader.wake())
    let mustTell = hasLost
    try {
      for (; !signal.aborted; reader.isBlocked = false) {
        reader.isBlocked = true
        if (mustTell) {
          yield gap('overflow', 'events were lost, because a connection ended that was full of them; list the directory again')
          mustTell = false
        } else if (reader.next < this.#first) {
          const lost = this.#first - reader.next
          yield gap('overflow', `${lost} events were lost, because they came faster than they were read; list the directory again`)
          reader.next = this.#first
        } else if (reader.next < this.#end) {
          reader.asked = reader.next + 1
          yield this.#events.get(reader.next)!
          reader.next++
        } else if (this.#failure) throw fault.unavailable('the watch has failed', this.#failure)
        else if (this.#ended) return
        else {
          reader.isBlocked = false
          await new Promise<void>((resolve) => (reader.wake = resolve))
        }
      }
    } finally {
      this.#readers.delete(reader)
      if (this.#readers.size === 0) {
        this.#unread = reader.next
        this.#hasLost = reader.isBlocked
      }
    }
  }

  /** Whether it has ended and everything has been read. */
  get finished(): boolean {
    return this.#ended && this.#readers.size === 0 && this.#unread >= this.#end
  }

  /** Whether the event repeats the last WRITE, which no reader has received yet. */
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
