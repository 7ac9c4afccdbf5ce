// Ends a browser that another replica watches: marks its row, and asks that replica to end it.
import { until, WaitTimeout } from '../../../../base/wait.ts'
import type { Db } from '../../../../store/db.ts'
import type { EventNotifier } from '../../../../store/events.ts'
import type { Leases } from '../../../../store/leases.ts'
import type { EndReason } from '../end-step.ts'
import { ended, moveBrowser } from '../lifecycle.ts'
import { watcherOf } from '../rows.ts'
import { endAt } from './notices.ts'

/** Limit on the wait of a caller. Another replica takes over from a killed one within 5 s. A longer end continues without its caller. */
const ENDED_MS = 15_000
/** Interval of reading the row, because a notice may be lost. */
const LOOK_AGAIN_MS = 500

/** The notice that callers cannot reach a browser any more while its end continues. When nothing is left of the browser, the notice is its id. */
export const outOfUse = (id: string): string => `${id} is out of use`

/**
 * Resolves when nothing is left of the browser, or, unless `whole`, when callers cannot reach it any more; in any case after {@link ENDED_MS}. False when there
 * is no such browser, or it has ended.
 */
export async function endElsewhere(
  { db, notifier, leases }: { db: Db; notifier: EventNotifier; leases: Leases },
  id: string,
  reason: EndReason,
  whole: boolean,
): Promise<boolean> {
  let isOver = false
  using scope = new DisposableStack()
  scope.defer(notifier.on('ended', (text) => void (isOver ||= text === id || (!whole && text === outOfUse(id)))))
  await moveBrowser(db, id, 'stopping', reason, ended(reason))
  // If the end began earlier, this waits for it.
  const watcher = await watcherOf(db, id)
  if (!watcher) return false
  if (watcher.replica !== null) await leases.tell('look', endAt(watcher.replica, id))
  let lookAt = performance.now() + LOOK_AGAIN_MS
  const hasEnded = async () => {
    if (isOver || performance.now() < lookAt) return isOver
    lookAt = performance.now() + LOOK_AGAIN_MS
    return (await watcherOf(db, id)) === undefined
  }
  await until('the end of a browser', ENDED_MS, hasEnded).catch((error: unknown) => {
    if (!(error instanceof WaitTimeout)) throw error
  })
  return true
}
