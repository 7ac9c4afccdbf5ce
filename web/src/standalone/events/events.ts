// The events of a list: which are shown, and the text above them. Their content is hostile, so it is only shown as text.
import type { EventLine } from '../../../../src/control/sessions/telemetry/shown/contract.ts'

/** The kinds that can be shown and hidden, in the order of their buttons: name, colour, and the categories of their events. */
export const KINDS = {
  console: { name: 'Console', colour: '#c8a6ff', of: ['console'] },
  network: { name: 'Network', colour: '#5aa9ff', of: ['network'] },
  page: { name: 'Pages', colour: '#5ad1b4', of: ['page'] },
  input: { name: 'Input', colour: '#ffd166', of: ['interaction'] },
  api: { name: 'API calls', colour: '#ff9ecb', of: ['control', 'platform'] },
  clients: { name: 'Clients', colour: '#9fd356', of: ['connection'] },
  system: { name: 'System', colour: '#b9c2cd', of: ['system', 'monitor', 'captcha'] },
  shots: { name: 'Screenshots', colour: '#d9d2ff', of: ['screenshot'] },
} satisfies Record<string, { name: string; colour: string; of: EventLine['category'][] }>
export type Kind = keyof typeof KINDS
const KIND_OF = new Map<string, Kind>(Object.entries(KINDS).flatMap(([kind, { of }]) => of.map((category) => [category, kind as Kind] as const)))

export interface Line extends EventLine {
  kind: Kind
  /** The text that the search looks through. */
  words: string
}

/** A page's crash is listed with crashes of other programs. */
const listed = (line: EventLine): Line => ({
  ...line,
  kind: line.type === 'page_crashed' ? 'system' : (KIND_OF.get(line.category) ?? 'system'),
  words: `${line.text}\n${line.note ?? ''}\n${line.type}`.toLowerCase(),
})

interface Said {
  text: string
  action?: { name: string; act: () => void }
}

export class Events {
  /** The lines that pass the filters, in the order of their times. */
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

  /** With `max`, older events are dropped. */
  constructor(max = Infinity) {
    this.#max = max
  }

  get length(): number {
    return this.#all.length
  }

  /** The index of the line at the present moment, or -1 before the first. */
  get present(): number {
    let [low, high] = [0, this.lines.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.lines[middle]!.ts > this.#now) high = middle
      else low = middle + 1
    }
    return low - 1
  }

  /** The text above the list. */
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
      // Drop a tenth at once, because the list is filtered again each time.
      for (const { kind } of this.#all.splice(0, this.length - Math.floor(this.#max * 0.9))) this.counts[kind]--
      return this.#filter()
    }
    this.lines = [...this.lines, ...lines.filter(this.#isShown())]
    this.say(undefined)
  }

  /** Counts events that will not be added. */
  skip(count: number): void {
    this.#skipped += count
    this.say(undefined)
  }

  /** Sets the present moment, in the time of the lines. */
  moveTo(ts: number): void {
    this.#now = ts
    this.#changed()
  }

  /** Shows this text above the list until more events come; with undefined, their number. */
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

  /** Calls `listener` after each change, until the returned function is called. */
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
