// Follows a stream of the API for a page: keeps the newest events, starts again after an interruption, and pauses while the tab is hidden.
import { useEffect, useState } from 'react'
import { adviceOn } from './advice.ts'
import { ApiError, stream } from '../api/client.ts'
import type { EventOf, StreamId } from '../api/contracts.ts'
import { useProject } from '../api/project.ts'
import { visible, whileVisible } from './visible.ts'

/** The newest events are kept: a stream may have any length, but a page's memory is limited. */
const MAX_EVENTS = 5_000
/** Events are shown in groups, because there may be thousands per second. */
const SHOW_MS = 150
const AGAIN_MS = 2_000

export interface Followed<E> {
  events: E[]
  /** The number of older events that are not kept. */
  missed: number
  isOpen: boolean
  /** The service has ended the stream: nothing more will come. */
  hasEnded: boolean
  problem?: string
}

type Input<K extends StreamId> = Parameters<typeof stream<K>>[1]

const NOTHING = { events: [], missed: 0, isOpen: false, hasEnded: false }

/** `isKept` says which events are shown; for example, heartbeats are not. */
export function useFollow<K extends StreamId>(id: K, input: Input<K>, isKept: (event: EventOf<K>) => boolean): Followed<EventOf<K>> {
  const [state, set] = useState<Followed<EventOf<K>>>(NOTHING)
  const project = useProject()
  const key = JSON.stringify(input)
  useEffect(() => {
    set(NOTHING)
    const ended = new AbortController()
    const { signal } = ended
    let waiting: EventOf<K>[] = []
    let isFresh = true
    const show = (): void => {
      if (waiting.length === 0) return
      const more = waiting
      waiting = []
      const replaces = isFresh
      isFresh = false
      set((now) => {
        const all = replaces ? more : [...now.events, ...more]
        return { ...now, events: all.slice(-MAX_EVENTS), missed: (replaces ? 0 : now.missed) + Math.max(0, all.length - MAX_EVENTS) }
      })
    }
    const timer = setInterval(show, SHOW_MS)
    const once = async (both: AbortSignal): Promise<void> => {
      isFresh = true
      waiting = []
      set(({ problem: _, ...now }) => ({ ...now, isOpen: true }))
      for await (const { event } of stream(id, JSON.parse(key) as Input<K>, { signal: both })) {
        if (isKept(event)) waiting.push(event)
        if (waiting.length > MAX_EVENTS) waiting.shift()
      }
      show()
      set((now) => ({ ...now, isOpen: false, hasEnded: true }))
    }
    const run = async (): Promise<void> => {
      let isDone = false
      while (!signal.aborted && !isDone) {
        await visible(signal)
        try {
          isDone = await whileVisible(signal, once)
        } catch (error) {
          set((now) => ({ ...now, isOpen: false, problem: adviceOn(error, 'again') }))
          if (error instanceof ApiError && error.status >= 400 && error.status < 500) return
          await new Promise((resolve) => setTimeout(resolve, AGAIN_MS))
        }
      }
    }
    // An error here means that the page was left.
    run().catch(() => {})
    return () => {
      ended.abort()
      clearInterval(timer)
    }
    // oxlint-disable-next-line react-hooks/exhaustive-deps
  }, [id, key, project])
  return state
}
