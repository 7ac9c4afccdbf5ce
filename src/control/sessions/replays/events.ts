// What happened in a session while it was recorded, for the people who look at the recording. Nothing before its first picture or after its last one is shown:
// in a pool that may be another caller's.
import { fault } from '../../../http/fault.ts'
import { readEvents, type Archive, type EventWindow } from '../telemetry/read.ts'
import type { EventDetails, EventLine, EventsShown } from '../telemetry/shown/contract.ts'
import { detailsOf, lineOf } from '../telemetry/shown/shown.ts'
import type { ReplayRow } from './rows.ts'

/** Events of one page. Some 200 bytes each, made of up to 1 MB each: few enough that a page is soon there. */
const PAGE = 250

/** A replay, and how much of its events a link to it shows. */
type ViewedReplay = Pick<ReplayRow, 'browser_id' | 'started_at' | 'clock_started_at' | 'finished_at'> & { events: EventsShown }

export type ReplayEvents = ReturnType<typeof replayEvents>

export function replayEvents(archive: Archive) {
  /** Those of the replay that callers may read, one by one: each may have a picture. Of one that is being recorded there is no video yet. */
  async function* read(replay: ViewedReplay, window: Pick<EventWindow, 'after' | 'before'>, signal: AbortSignal) {
    const { browser_id: id, started_at: from, finished_at: until } = replay
    if (!until) return
    const since = replay.clock_started_at!
    // Times are whole microseconds, and the end of a window is not in it.
    const times = { since, until: since + (until.getTime() - from!.getTime()) * 1000 + 1 }
    yield* readEvents(archive, id, { ...times, ...window }, true, signal)
  }
  const shownBy = ({ events }: ViewedReplay) => {
    if (events === 'none') throw fault.notFound('events of the replay', 'this link shows none')
    return events
  }
  return {
    /** Whether there are any that the link shows. */
    async some(replay: ViewedReplay, signal: AbortSignal): Promise<boolean> {
      if (replay.events === 'none') return false
      for await (const _ of read(replay, {}, signal)) return true
      return false
    },
    /** A page of them. `next` is the `after` of the next page; absent on the last one. @throws 404 when the link shows none */
    async page(replay: ViewedReplay, after: number, signal: AbortSignal): Promise<{ events: EventLine[]; next?: number }> {
      const shown = shownBy(replay)
      const events: EventLine[] = []
      for await (const one of read(replay, { after }, signal)) {
        // One more than a page has: there is a next one.
        if (events.length === PAGE) return { events, next: events.at(-1)!.seq }
        events.push(lineOf(one, shown))
      }
      return { events }
    },
    /** @throws 404 when the replay has no such event, or the link shows none */
    async one(replay: ViewedReplay, seq: number, signal: AbortSignal): Promise<EventDetails> {
      const shown = shownBy(replay)
      for await (const found of read(replay, { after: seq - 1, before: seq + 1 }, signal)) return detailsOf(found, shown)
      throw fault.notFound('event', String(seq))
    },
  }
}
