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
  /** Resolves after the signal has aborted and the last sweep is over: until then it uses the database. */
  readonly ended: Promise<void>
  /** How many callers hold it now. */
  held(id: string): number
}

/** Counts holds. Until `signal` aborts, every second touches the held sessions in the database and ends the idle ones. */
export function watchActivity(db: Db, fleet: Fleet, log: Log, signal: AbortSignal): Activity {
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
  const run = async () => {
    for await (const _ of setInterval(SWEEP_MS, undefined, { signal }))
      await sweep().catch((err: unknown) => log.error({ err }, 'looking for idle sessions failed'))
  }
  const ended = run().catch(() => {}) // ends only by its signal
  return {
    ended,
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
