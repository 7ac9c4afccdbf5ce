// The events of a running session. The page requests them only while the list is open.
import type { EventDetails, EventLine } from '../../../../src/control/sessions/telemetry/shown/contract.ts'
import { Events } from '../events/events.ts'

/** The number of lines that are kept; older ones are dropped. */
const MAX_LINES = 5_000
/** The number of characters of details that are kept. Older lines have no details. */
const MAX_DETAILS = 8 * 1024 * 1024

const clock = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', second: '2-digit', hour12: false })
export const when = ({ ts }: EventLine): string => clock.format(ts / 1000)

type Details = Omit<EventDetails, 'png'>
/** A message of the service (control/sessions/live/events.ts). */
interface Message {
  categories?: string[]
  events?: { line: EventLine; details: Details }[]
  skipped?: number
  event?: string
}

const GONE: Details = { facts: [], blocks: [['Details', 'They are not kept here any more.']], isBrief: false }
const sizeOf = ({ facts, blocks }: Details): number => [...facts, ...blocks].reduce((sum, [name, text]) => sum + name.length + text.length, 0)

export class LiveEvents extends Events {
  /** The details of the newest events by number, in order of arrival, with their length. */
  #details = new Map<number, { details: Details; size: number }>()
  #size = 0
  #last = 0
  #source: EventSource | undefined
  #isOver = false
  readonly #url: string

  constructor(base: string) {
    super(MAX_LINES)
    this.#url = `${base}/events`
  }

  open(): void {
    if (this.#isOver) return this.say(this.length > 0 ? undefined : { text: 'This session has ended.' })
    const source = new EventSource(this.#url)
    this.#source = source
    source.onmessage = ({ data }: MessageEvent<string>) => this.#take(JSON.parse(data) as Message)
    source.onerror = () => {
      // The browser reconnects by itself, unless the service refused the connection.
      if (source.readyState !== EventSource.CLOSED || this.#isOver) return
      const act = (): void => {
        this.say({ text: 'Connecting…' })
        this.open()
      }
      this.say({ text: 'The events cannot be shown.', action: { name: 'Try again', act } })
    }
  }

  close(): void {
    this.#source?.close()
    this.#source = undefined
  }

  /** The session has ended. The listed events stay. */
  end(): void {
    this.#isOver = true
    this.close()
  }

  async detailsOf({ seq }: EventLine): Promise<EventDetails> {
    return this.#details.get(seq)?.details ?? GONE
  }

  #take({ categories, events, skipped, event }: Message): void {
    if (categories) this.say(categories.length > 0 || this.length > 0 ? undefined : { text: 'The telemetry of this session is off, so there are no events.' })
    else if (events) this.#keep(events)
    else if (skipped) this.skip(skipped)
    // The service sends this before a stream ends. Either the browser reconnects, or the session has ended.
    else if (event === 'error') this.say({ text: 'The events stopped. Trying again…' })
  }

  #keep(events: { line: EventLine; details: Details }[]): void {
    // After a reconnection the stream repeats the events that it still has.
    const more = events.filter(({ line }) => line.seq > this.#last)
    if (more.length === 0) return
    this.#last = more.at(-1)!.line.seq
    for (const { line, details } of more) {
      const size = sizeOf(details)
      this.#details.set(line.seq, { details, size })
      this.#size += size
    }
    for (const [seq, { size }] of this.#details) {
      if (this.#size <= MAX_DETAILS && this.#details.size <= MAX_LINES) break
      this.#details.delete(seq)
      this.#size -= size
    }
    this.add(more.map(({ line }) => line))
  }
}
