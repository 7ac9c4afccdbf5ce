// The last events of the session, for readers. Events that pages can cause, in any number, do not displace the last of the other events.
import type { TelemetryEvent } from './contract.ts'
import type { KEPT } from './limits.ts'

export type KeptLimits = typeof KEPT

/** An event in the form for sending. `type` is for filters. */
export interface Kept {
  seq: number
  type: TelemetryEvent['type']
  /** The envelope as JSON. */
  json: string
  /** The same without its picture, if it has one. */
  brief?: string
}

/** Events in the order of their numbers; the oldest are forgotten first. */
class Queue {
  readonly #all: Kept[] = []
  /** Length of all together, in characters. */
  length = 0

  get count(): number {
    return this.#all.length
  }

  get oldest(): Kept | undefined {
    return this.#all[0]
  }

  add(kept: Kept): void {
    this.#all.push(kept)
    this.length += kept.json.length
  }

  forget(): Kept {
    const first = this.#all.shift()!
    this.length -= first.json.length
    return first
  }

  /** The first event after `seq`. */
  next(seq: number): Kept | undefined {
    let [low, high] = [0, this.#all.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.#all[middle]!.seq > seq) high = middle
      else low = middle + 1
    }
    return this.#all[low]
  }
}

export class KeptEvents {
  readonly #limits: KeptLimits
  /** Two queues: events that pages may have caused, and others. */
  readonly #pages = new Queue()
  readonly #own = new Queue()
  /** The stored events that still have their picture, oldest first, and the size of these. */
  readonly #pictures: Kept[] = []
  #picturesLength = 0
  /** The number of the last removed event; 0 when there was none. */
  forgotten = 0

  constructor(limits: KeptLimits) {
    this.#limits = limits
  }

  /** Adds the newest event. */
  add(kept: Kept, isOwn: boolean): void {
    ;(isOwn ? this.#own : this.#pages).add(kept)
    if (kept.brief !== undefined) this.#addPicture(kept)
    const { events, length } = this.#limits
    const isOver = () => this.#pages.count + this.#own.count > events || this.#pages.length + this.#own.length > length
    while (isOver() && this.#pages.count + this.#own.count > 1) this.#forget()
  }

  /** The first kept event after `seq`. */
  next(seq: number): Kept | undefined {
    const [one, other] = [this.#pages.next(seq), this.#own.next(seq)]
    return one && other ? (one.seq < other.seq ? one : other) : (one ?? other)
  }

  /** Removes the oldest event. Events with a reserved place are removed only when no other one is left. */
  #forget(): void {
    const { ownEvents, ownLength } = this.#limits
    const [pages, own] = [this.#pages, this.#own]
    const mayForgetOwn = own.count > ownEvents || own.length > ownLength
    const isOwn = pages.count === 0 || (mayForgetOwn && own.oldest!.seq < pages.oldest!.seq)
    const { seq, brief, json } = (isOwn ? own : pages).forget()
    this.forgotten = Math.max(this.forgotten, seq)
    if (brief === undefined) return
    this.#pictures.shift()
    this.#picturesLength -= json.length
  }

  #addPicture(kept: Kept): void {
    this.#pictures.push(kept)
    this.#picturesLength += kept.json.length
    while (this.#picturesLength > this.#limits.picturesLength && this.#pictures.length > 1) {
      const oldest = this.#pictures.shift()!
      const { json, brief = '' } = oldest
      oldest.json = brief
      delete oldest.brief
      this.#picturesLength -= json.length
      this.#pages.length -= json.length - brief.length
    }
  }
}
