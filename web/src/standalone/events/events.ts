// The events that a list has: which of them are shown, and what is said of them. What they say is hostile: it is only ever shown as text.
import type { EventLine } from '../../../../src/control/sessions/telemetry/shown/contract.ts'

/** What can be shown and hidden, in the order of the buttons. */
export const KINDS = {
  console: 'Console',
  network: 'Network',
  page: 'Pages',
  input: 'Input',
  api: 'API calls',
  clients: 'Clients',
  system: 'System',
  shots: 'Screenshots',
}
export type Kind = keyof typeof KINDS
const KIND_OF: Record<EventLine['category'], Kind> = {
  console: 'console',
  network: 'network',
  page: 'page',
  interaction: 'input',
  control: 'api',
  platform: 'api',
  connection: 'clients',
  system: 'system',
  monitor: 'system',
  captcha: 'system',
  screenshot: 'shots',
}

export interface Line extends EventLine {
  kind: Kind
  /** What the search looks through. */
  words: string
}

/** A crash of a page is listed with those of other programs. */
const listed = (line: EventLine): Line => ({
  ...line,
  kind: line.type === 'page_crashed' ? 'system' : (KIND_OF[line.category] ?? 'system'),
  words: `${line.text}\n${line.note ?? ''}\n${line.type}`.toLowerCase(),
})

interface Said {
  text: string
  /** A button. */
  action?: { name: string; act: () => void }
}

export class Events {
  /** Those that the filters leave, in the order of their times. */
  lines: readonly Line[] = []
  readonly counts = Object.fromEntries(Object.keys(KINDS).map((kind) => [kind, 0])) as Record<Kind, number>
  readonly hidden = new Set<Kind>()
  query = ''
  said: Said | undefined
  #all: Line[] = []
  #skipped = 0
  #now = -Infinity
  #listeners = new Set<() => void>()
  readonly #max: number

  /** `max`: older ones are dropped. */
  constructor(max = Infinity) {
    this.#max = max
  }

  get length(): number {
    return this.#all.length
  }

  /** The line of the present moment; -1 before the first one. */
  get present(): number {
    let [low, high] = [0, this.lines.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.lines[middle]!.ts > this.#now) high = middle
      else low = middle + 1
    }
    return low - 1
  }

  /** What stands above the list. */
  get status(): Said {
    if (this.said) return this.said
    if (this.length === 0) return { text: 'No events yet' }
    const count = this.lines.length === this.length ? `${this.length} events` : `${this.lines.length} of ${this.length} events`
    return { text: this.#skipped === 0 ? count : `${count}; ${this.#skipped} more came too fast to be listed` }
  }

  /** Adds lines, the oldest first. */
  add(more: readonly EventLine[]): void {
    const lines = more.map(listed)
    for (const line of lines) {
      this.#all.push(line)
      this.counts[line.kind]++
    }
    if (this.length > this.#max) {
      // A tenth at once: each time the list is filtered anew.
      for (const { kind } of this.#all.splice(0, this.length - Math.floor(this.#max * 0.9))) this.counts[kind]--
      return this.#filter()
    }
    this.lines = [...this.lines, ...lines.filter(this.#isShown())]
    this.say(undefined)
  }

  /** So many events are not going to be added. */
  skip(count: number): void {
    this.#skipped += count
    this.say(undefined)
  }

  /** The present moment, in the time of the lines. */
  moveTo(ts: number): void {
    this.#now = ts
    this.#changed()
  }

  /** What stands above the list until there are more; undefined: how many there are. */
  say(said: Said | undefined): void {
    this.said = said
    this.#changed()
  }

  toggle(kind: Kind): void {
    if (!this.hidden.delete(kind)) this.hidden.add(kind)
    this.#filter()
  }

  search(query: string): void {
    this.query = query
    this.#filter()
  }

  /** Calls `listener` after each change, until what it returns is called. */
  listen(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  #isShown(): (line: Line) => boolean {
    const words = this.query.toLowerCase().split(/\s+/).filter(Boolean)
    return (line) => !this.hidden.has(line.kind) && words.every((word) => line.words.includes(word))
  }

  #filter(): void {
    this.lines = this.#all.filter(this.#isShown())
    this.say(undefined)
  }

  #changed(): void {
    for (const listener of this.#listeners) listener()
  }
}
