// The last events of the session, for readers. What pages make, in any amount, does not push out the last of what they cannot make.
import type { TelemetryEvent } from './contract.ts'
import type { KEPT } from './limits.ts'

export type KeptLimits = typeof KEPT

/** An event as it is sent. `type` is for filters. */
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
  /** Those of `#all` from `#head` on. */
  #all: Kept[] = []
  #head = 0
  length = 0

  get count(): number {
    return this.#all.length - this.#head
  }

  get oldest(): Kept | undefined {
    return this.#all[this.#head]
  }

  add(kept: Kept): void {
    this.#all.push(kept)
    this.length += kept.json.length
  }

  forget(): Kept {
    const first = this.#all[this.#head]!
    this.length -= first.json.length
    // Its text is freed before the list is cut.
    this.#all[this.#head++] = { seq: first.seq, type: first.type, json: '' }
    if (this.#head > this.count + 1024) {
      this.#all = this.#all.slice(this.#head)
      this.#head = 0
    }
    return first
  }

  /** The first event after `seq`. */
  next(seq: number): Kept | undefined {
    return this.#all[this.#after(seq)]
  }

  #after(seq: number): number {
    let [low, high] = [this.#head, this.#all.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.#all[middle]!.seq > seq) high = middle
      else low = middle + 1
    }
    return low
  }
}

export class KeptEvents {
  readonly #limits: KeptLimits
  /** What pages may have made, and what they cannot make. */
  readonly #pages = new Queue()
  readonly #own = new Queue()
  /** The kept events that have their picture, oldest first, and what those take. */
  readonly #pictures: Kept[] = []
  #picturesLength = 0
  /** The number of the last event that was forgotten; 0: none was. */
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

  /** The oldest event, but none that has its place for itself while there is another one. */
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
