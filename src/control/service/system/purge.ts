// Removes objects that ended long ago: once after a start, then every hour.
import { setInterval } from 'node:timers/promises'
import type { Log } from '../../../base/log.ts'
import type { Purge } from '../../module.ts'

const EVERY_MS = 3600_000

/** One round of all purges. A failed purge does not stop the others; the next round tries it again. */
export async function purgeAll(purges: readonly Purge[], log: Log, signal: AbortSignal): Promise<void> {
  for (const { what, run } of purges) {
    if (signal.aborted) return
    try {
      const removed = await run(signal)
      if (removed > 0) log.info({ removed }, `removed old ${what}`)
    } catch (err) {
      if (!signal.aborted) log.error({ err }, `old ${what} could not be removed`)
    }
  }
}

/** Runs the purges until disposed. Disposing waits for the current batch. Skips rounds when not `isOurs`. */
export function keepPurging(purges: readonly Purge[], log: Log, isOurs: () => boolean = () => true): AsyncDisposable {
  const stop = new AbortController()
  const run = async () => {
    const round = async () => (isOurs() ? purgeAll(purges, log, stop.signal) : undefined)
    await round()
    for await (const _ of setInterval(EVERY_MS, undefined, { signal: stop.signal })) await round()
  }
  const running = run().catch(() => {}) // ends only by its signal
  return {
    async [Symbol.asyncDispose]() {
      stop.abort(new Error('the service stops'))
      await running
    },
  }
}
