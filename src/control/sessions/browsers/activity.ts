// Tracks which sessions are in use, so that none times out while a caller uses it.
import { setInterval } from 'node:timers/promises'
import type { Log } from '../../../base/log.ts'
import type { Db } from '../../../store/db.ts'
import type { Fleet } from './fleet.ts'
import { touch } from './rows.ts'

/** Timeouts are at least 10 s and are promised to take effect within 5 s. */
const SWEEP_MS = 1_000

export interface Activity {
  /** Marks a session as in use until the returned function is called. */
  hold(id: string): () => void
  /** Begins to touch held sessions in the database, every second, and to end the idle ones. Disposing the result waits for the sweep under way. */
  watch(): AsyncDisposable
  /** How many callers hold it now. */
  held(id: string): number
}

/** Counts holds. */
export function watchActivity(db: Db, fleet: Fleet, log: Log): Activity {
  const holds = new Map<string, number>()
  /** Sessions that were held at some time since the last sweep. */
  let used = new Set<string>()
  const sweep = async () => {
    const seen = used
    used = new Set()
    try {
      await touch(db, [...new Set([...seen, ...holds.keys()])])
    } catch (error) {
      // The next sweep records them: a use while the database is away is a use.
      for (const id of seen) used.add(id)
      throw error
    }
    await fleet.sweep()
  }
  const run = async (signal: AbortSignal) => {
    for await (const _ of setInterval(SWEEP_MS, undefined, { signal }))
      await sweep().catch((err: unknown) => log.error({ err }, 'looking for idle sessions failed'))
  }
  return {
    watch() {
      const stop = new AbortController()
      const ended = run(stop.signal).catch(() => {}) // ends only by its signal
      return {
        async [Symbol.asyncDispose]() {
          stop.abort()
          await ended
        },
      }
    },
    held: (id) => holds.get(id) ?? 0,
    hold(id) {
      holds.set(id, (holds.get(id) ?? 0) + 1)
      used.add(id)
      let held = true
      return () => {
        if (!held) return
        held = false
        const left = (holds.get(id) ?? 1) - 1
        if (left === 0) holds.delete(id)
        else holds.set(id, left)
        used.add(id)
      }
    },
  }
}
