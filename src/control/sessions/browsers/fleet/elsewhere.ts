// Ending a browser that another replica watches: its row says so, and that replica does it.
import { until, WaitTimeout, within } from '../../../../base/wait.ts'
import type { Db } from '../../../../store/db.ts'
import type { EventNotifier } from '../../../../store/events.ts'
import type { Leases } from '../../../../store/leases.ts'
import type { EndReason } from '../end-step.ts'
import { ended, moveBrowser } from '../lifecycle.ts'
import { watcherOf } from '../rows.ts'
import { endAt } from './notices.ts'

/** How long a caller waits. A replica that was just killed is replaced within 5 s; an end that takes longer goes on without its caller. */
const ENDED_MS = 15_000
/** A notice may be lost. */
const LOOK_AGAIN_MS = 500

/** The notice that a browser is out of use, and that its end goes on. When nothing is left of it, the notice is its id. */
export const outOfUse = (id: string): string => `${id} is out of use`

/** Resolves when nothing is left of the browser (when it is out of use, unless `whole`), or after {@link ENDED_MS}; false when there is no such browser, or it has ended. */
export async function endElsewhere(
  { db, notifier, leases }: { db: Db; notifier: EventNotifier; leases: Leases },
  id: string,
  reason: EndReason,
  whole: boolean,
): Promise<boolean> {
  const received = Promise.withResolvers<void>()
  const leave = notifier.on('ended', (text) => {
    if (text === id || (!whole && text === outOfUse(id))) received.resolve()
  })
  const over = new AbortController()
  try {
    await moveBrowser(db, id, 'stopping', reason, ended(reason))
    // Also when its end has begun before: then this waits for it.
    const watcher = await watcherOf(db, id)
    if (!watcher) return false
    if (watcher.replica !== null) await leases.tell('look', endAt(watcher.replica, id))
    const isGone = until('the end of a browser', ENDED_MS, async () => (await watcherOf(db, id)) === undefined, { everyMs: LOOK_AGAIN_MS, signal: over.signal })
    isGone.catch(() => {})
    await within('the end of a browser', ENDED_MS, Promise.race([received.promise, isGone.then(() => {})]))
    return true
  } catch (error) {
    if (error instanceof WaitTimeout) return true
    throw error
  } finally {
    over.abort(new Error('the caller has its answer'))
    leave()
    received.resolve()
  }
}
