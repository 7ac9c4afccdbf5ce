// Who has a browser of a pool, and for how long: getting one, and giving it back as the pool has made it.
import { isDeepStrictEqual } from 'node:util'
import { session, type Fit } from '../../../agent/session/contract.ts'
import { RETRY_SECONDS, Unavailable } from '../../../base/unavailable.ts'
import { until, within } from '../../../base/wait.ts'
import { call, CallFailed } from '../../../http/client.ts'
import type { Endpoint } from '../../../http/endpoint.ts'
import { Fault, fault } from '../../../http/fault.ts'
import type { LeasedSession } from '../../../http/route.ts'
import { NoRoom } from '../../../instances/driver.ts'
import type { Db } from '../../../store/db.ts'
import { fittedTelemetry } from '../telemetry/contract.ts'
import type { Browser } from './contract.ts'
import { WARM_FIT_MS, type Fitter } from './fitter.ts'
import type { Fleet } from './fleet.ts'
import { BootFailed, PoolBootFailed } from './fleet/boots.ts'
import { handOver, type HandOver } from './hand-over.ts'
import type { OpenCalls } from './open-calls.ts'
import { hasOldProfile, pooledBrowser, type Baseline, type Lease } from './pooled-rows.ts'
import type { Present } from './present.ts'
import type { BrowserRow } from './rows.ts'
import { named } from './refused.ts'
import type { Chosen, SessionProfiles } from './session-profiles.ts'

const NOT_STARTED = 'a browser could not be started; the log of the service says why'

/** Why a browser of a pool could not be made, for its callers: never what only the log may say. */
export const problemOf = (error: unknown): string =>
  error instanceof Fault || error instanceof NoRoom || (error instanceof Unavailable && !(error instanceof BootFailed))
    ? error.message
    : error instanceof CallFailed && error.status === 400
      ? error.reason
      : NOT_STARTED

/** How long the calls of a caller that gives its browser back have to end. Their connections are closed; most end at once. */
const CALLS_MS = 2_000
const RECORDINGS_MS = 5_000
const NOTICE_MS = 1_000
/** Tries to lend a browser whose settings hang. */
const LEND_TRIES = 2

interface PoolLeasesSettings extends HandOver {
  db: Db
  fleet: Fleet
  fitter: Fitter
  profiles: SessionProfiles
  present: Present
  calls: OpenCalls
  /** Ends the calls and connections of a caller, here and at other replicas. Does not wait for their ends. */
  dismiss: (session: LeasedSession) => Promise<void>
  /** Ends the recordings of a session. @throws when that does not work */
  stopRecordings: (session: { id: string; endpoint: Endpoint }) => Promise<void>
}

/** A pool, as far as its callers' browsers depend on it. */
interface Pool {
  id: string
  name: string | null
}

export interface PoolLeases {
  /**
   * Lends the caller a browser of the pool, in the order of callers. Undefined when there was none within `waitMs`.
   * @throws 404 when there is no such pool any more; 409 when another session has the name; why the pool has none; the signal's reason
   */
  acquire(pool: Pool, lease: Lease, profile: Chosen | undefined, waitMs: number, origin: string, signal: AbortSignal): Promise<Browser | undefined>
  /** Gives a browser back, or ends it. Resolves when nobody reaches it. @throws 404 when it is not of this pool, or has ended */
  release(pool: Pool, id: string, reuse: boolean): Promise<void>
}

export function makePoolLeases(settings: PoolLeasesSettings): PoolLeases {
  const { db, fleet, fitter, profiles, present, activity, uses, calls, dismiss, stopRecordings, log } = settings
  const { at, fit, fitNew } = fitter
  const { lending } = fleet

  /** What a caller has changed and an update can change back. */
  function changedBack(row: BrowserRow, { options: before }: Baseline): Fit {
    const isSame = (name: keyof Baseline['options']) => isDeepStrictEqual(row.options[name], before[name])
    return {
      // 0: what a browser allows that nobody has.
      timeout_seconds: 0,
      let_go: true,
      ...(row.options.telemetry && { telemetry: fittedTelemetry(undefined) }),
      ...(!(isSame('proxy_id') && isSame('network')) && { proxy: { on: true } }),
      ...(!isSame('viewport') && { viewport: before.viewport }),
    }
  }

  /** Whether another caller may have it: it has no profile of this one's, and no old one of the pool's. */
  const isReusable = async (row: BrowserRow): Promise<boolean> =>
    row.profile_id === ((row.pool_baseline as Baseline).profile_id ?? null) && !row.profile_save && !(await hasOldProfile(db, row.id))

  /** Makes a browser that was taken back what its pool has made. @throws when that does not work */
  async function restore(row: BrowserRow): Promise<void> {
    const signal = AbortSignal.timeout(WARM_FIT_MS)
    using held = new DisposableStack()
    held.defer(uses.hold(row.id))
    await within('the notice of a release', NOTICE_MS, dismiss(row))
    await until('the calls of a caller', CALLS_MS, () => activity.held(row.id) + calls.updates(row.id) === 0, { everyMs: 5, signal })
    // Also those that came through another replica, which may not have heard of it.
    await call(at(row).endpoint, session.dismissClients, {}, { signal })
    // After the calls: one of them may just have begun a recording.
    await within('the end of recordings', RECORDINGS_MS, stopRecordings(at(row)))
    // An update may have changed it until now.
    const now = await pooledBrowser(db, row.pool_id!, row.id)
    if (now?.state !== 'releasing') throw new Error('the browser has ended meanwhile')
    if (!(await isReusable(now))) throw new Error("it has got a profile of its caller's")
    const baseline = row.pool_baseline as Baseline
    await fit({ ...now, options: baseline.options }, changedBack(now, baseline), signal, WARM_FIT_MS)
  }

  /** The same for one that was taken back: it waits for the next caller then, or is ended. */
  async function putBack(row: BrowserRow): Promise<void> {
    try {
      await restore(row)
      if (await lending.putBack(row)) return
    } catch (err) {
      log.warn({ err, browser: row.id, pool: row.pool_id }, 'a browser could not be put back to what its pool has made; it is replaced')
    }
    await fleet.takeOut(row.id, 'released')
  }

  return {
    async acquire(pool, lease, profile, waitMs, origin, signal) {
      const late = AbortSignal.timeout(waitMs)
      for (let left = LEND_TRIES; ; left--) {
        let row: BrowserRow | undefined
        try {
          row = await named(lease.name, lending.lend(pool.id, lease, signal, late))
        } catch (error) {
          signal.throwIfAborted()
          if (error === late.reason) return undefined
          // What is wrong is not in this call.
          if (error instanceof PoolBootFailed)
            throw new Unavailable(`the pool has no browser, and cannot make one: ${problemOf(error.cause)}`, RETRY_SECONDS, error, true)
          throw error
        }
        if (!row) throw fault.notFound('browser pool', pool.id)
        // Nobody would give back what a caller got that has left.
        if (signal.aborted) {
          if (await lending.takeBack(row)) await putBack(row)
          signal.throwIfAborted()
        }
        const lent = row
        const configured = async () => {
          const loaded = profile && (await profiles.load(at(lent), profile, { keepTabs: lease.start_url === undefined, isUpdate: true }, signal))
          const { telemetry } = lent.options
          // While it waited, nothing was captured.
          const wanted = { ...(telemetry && { telemetry: fittedTelemetry(telemetry) }), ...(lease.start_url !== undefined && { start_url: lease.start_url }) }
          await fitNew(lent, wanted, signal, WARM_FIT_MS)
          return (await present([{ ...lent, ...loaded }], origin, new Map([[pool.id, pool.name ?? undefined]])))[0]
        }
        const browser = await handOver(settings, lent, configured, () => left > 1, 'start_url', signal)
        if (browser) return browser
      }
    },
    async release(pool, id, reuse) {
      const row = await pooledBrowser(db, pool.id, id)
      if (!row || row.created_at === null) throw fault.notFound('browser', id)
      // A client that did not get the answer asks again.
      if (row.state !== 'running') return
      const taken = await lending.takeBack(row)
      if (!taken) return
      // A profile that an update is still loading is in the row now. The row may forget it, and the browser have it: the update fails, because the session has ended.
      if (reuse && (await isReusable(taken))) return putBack(taken)
      await fleet.takeOut(id, 'released')
    },
  }
}
