// Tracks which sessions are in use, so that none times out while a caller uses it.
import { setInterval } from 'node:timers/promises'
import type { Log } from '../../../base/log.ts'
import type { Db } from '../../../store/db.ts'
import type { Fleet } from './fleet.ts'
import { touch } from './rows.ts'

/** Timeouts are at least 10 s and are promised to take effect within 5 s. */
const SWEEP_MS = 1_000

export type Activity = ReturnType<typeof watchActivity>

export function watchActivity(db: Db, fleet: Pick<Fleet, 'sweep'>, log: Log) {
  const holds = new Map<string, number>()
  /** Sessions that were in use at some time since the last sweep. */
  let used = new Set<string>()
  const sweep = async () => {
    const seen = used
    used = new Set()
    try {
      await touch(db, [...new Set([...seen, ...holds.keys()])])
    } catch (error) {
      // Keep them for the next sweep: a use counts also while the database is away.
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
    /** Starts to extend the timeout of sessions in use, every second, and to end idle ones. Disposing the result waits for the current sweep. */
    watch(): AsyncDisposable {
      const stop = new AbortController()
      const ended = run(stop.signal).catch(() => {}) // ends only by its signal
      return {
        async [Symbol.asyncDispose]() {
          stop.abort()
          await ended
        },
      }
    },
    /** Number of callers that use the session now. */
    held: (id: string) => holds.get(id) ?? 0,
    /** Marks a session as in use until the returned function is called. */
    hold(id: string): () => void {
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
