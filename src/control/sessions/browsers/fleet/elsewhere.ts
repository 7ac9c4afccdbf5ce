// Ending a browser that another replica watches: its row says so, and that replica does it.
import { until, WaitTimeout } from '../../../../base/wait.ts'
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
  let isOver = false
  using scope = new DisposableStack()
  scope.defer(notifier.on('ended', (text) => void (isOver ||= text === id || (!whole && text === outOfUse(id)))))
  await moveBrowser(db, id, 'stopping', reason, ended(reason))
  // Also when its end has begun before: then this waits for it.
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
