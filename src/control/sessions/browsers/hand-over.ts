// The last step before a caller gets a browser: it is configured while it counts as in use. One that does not accept that is ended.
import type { Log } from '../../../base/log.ts'
import { RETRY_SECONDS, Unavailable } from '../../../base/unavailable.ts'
import { CallFailed } from '../../../http/client.ts'
import { Fault, fault } from '../../../http/fault.ts'
import type { Activity } from './activity.ts'
import type { Fleet } from './fleet.ts'
import type { BrowserRow } from './rows.ts'
import type { Uses } from './standby.ts'

export interface HandOver {
  fleet: Pick<Fleet, 'belongs' | 'takeOut'>
  activity: Activity
  uses: Uses
  log: Log
}

/** The browser is ended, so its caller may ask for another one. */
export const unsettled = (cause?: unknown): Unavailable => new Unavailable('the browser did not accept its settings', RETRY_SECONDS, cause, true)

/**
 * Does `configure` for the caller of a browser. Undefined when that has failed and `mayReplace` says that another browser may do better. `field` is what the caller has
 * given that only a browser can judge. @throws 400 naming `field`; 503; what else `configure` throws for callers; the signal's reason
 */
export async function handOver<T>(
  { fleet, activity, uses, log }: HandOver,
  row: BrowserRow,
  configure: () => Promise<T>,
  mayReplace: (error: Error) => boolean,
  field: string,
  signal: AbortSignal,
): Promise<T | undefined> {
  fleet.belongs(row)
  using held = new DisposableStack()
  held.defer(activity.hold(row.id))
  held.defer(uses.hold(row.id))
  try {
    const configured = await configure()
    // Nobody would ever end a session whose caller left before it got the answer.
    signal.throwIfAborted()
    return configured
  } catch (error) {
    await fleet.takeOut(row.id, 'abandoned')
    if (signal.aborted || error instanceof Fault || error instanceof Unavailable) throw error
    if (error instanceof CallFailed && error.status === 400) throw fault.field(field, error.reason)
    log.warn({ err: error, browser: row.id, pool: row.pool_id }, 'a browser did not accept its settings')
    if (mayReplace(error as Error)) return undefined
    throw unsettled(error)
  }
}
