// The last step before a caller gets a browser: it is configured while it counts as in use. A browser that refuses is ended.
import type { Log } from '../../../base/log.ts'
import { RETRY_SECONDS, Unavailable } from '../../../base/unavailable.ts'
import { CallFailed } from '../../../http/client.ts'
import { Fault, fault } from '../../../http/fault.ts'
import type { Activity } from './activity.ts'
import type { Fleet } from './fleet.ts'
import type { BrowserRow } from './rows.ts'
import type { Uses } from './standby.ts'

export interface HandOver {
  fleet: Pick<Fleet, 'registry' | 'takeOut'>
  activity: Activity
  uses: Uses
  log: Log
}

/** The browser is ended, so its caller may ask for another one. */
export const unsettled = (cause?: unknown): Unavailable => new Unavailable('the browser did not accept its settings', RETRY_SECONDS, cause, true)

interface Handing<T> {
  row: BrowserRow
  configure: () => Promise<T>
  /** Whether another browser may succeed after this error. */
  mayReplace: (error: Error) => boolean
  /** The field of the request that only a browser can check. */
  field: string
  signal: AbortSignal
}

/**
 * Runs `configure` for the caller of a browser. Undefined when it failed and another browser may succeed. @throws 400 naming `field`; 503; other errors of
 * `configure` for callers; the signal's reason
 */
export async function handOver<T>({ fleet, activity, uses, log }: HandOver, { row, configure, mayReplace, field, signal }: Handing<T>): Promise<T | undefined> {
  fleet.registry.belongs(row)
  using held = new DisposableStack()
  held.defer(activity.hold(row.id))
  held.defer(uses.hold(row.id))
  try {
    const configured = await configure()
    // If the caller left before it got the answer, nobody would end the session.
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
