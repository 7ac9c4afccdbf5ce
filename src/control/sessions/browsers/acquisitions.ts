// Acquisitions: lends a caller a browser of a pool, and takes it back in the state in which the pool made it.
import { isDeepStrictEqual } from 'node:util'
import { session, type Fit } from '../../../agent/session/contract.ts'
import { RETRY_SECONDS, Unavailable } from '../../../base/unavailable.ts'
import { until, within } from '../../../base/wait.ts'
import { call, CallFailed } from '../../../http/client.ts'
import type { Endpoint } from '../../../http/endpoint.ts'
import { Fault, fault } from '../../../http/fault.ts'
import type { AcquiredSession } from '../../../http/route.ts'
import { NoRoom } from '../../../instances/driver.ts'
import type { Db } from '../../../store/db.ts'
import { fittedTelemetry } from '../telemetry/contract.ts'
import type { Browser } from './contract.ts'
import { WARM_FIT_MS, type Fitter } from './fitter.ts'
import type { Fleet } from './fleet.ts'
import { BootFailed, PoolBootFailed } from './fleet/boots.ts'
import { handOver, type HandOver } from './hand-over.ts'
import type { OpenCalls } from './open-calls.ts'
import { hasOldProfile, pooledBrowser, type Baseline, type Acquisition } from './pooled-rows.ts'
import type { Present } from './present.ts'
import type { BrowserRow } from './rows.ts'
import { named } from './refused.ts'
import type { Chosen, SessionProfiles } from './session-profiles.ts'

const NOT_STARTED = 'a browser could not be started; the log of the service says why'

/** The reason why a browser of a pool could not be made, for its callers. Details that only the log may have are left out. */
export const problemOf = (error: unknown): string =>
  error instanceof Fault || error instanceof NoRoom || (error instanceof Unavailable && !(error instanceof BootFailed))
    ? error.message
    : error instanceof CallFailed && error.status === 400
      ? error.reason
      : NOT_STARTED

/** Limit on ending the calls of a caller that gives its browser back. Their connections are closed; most end at once. */
const CALLS_MS = 2_000
const RECORDINGS_MS = 5_000
const NOTICE_MS = 1_000
/** Most browsers that are tried for one caller: a browser may hang while it is configured. */
const LEND_TRIES = 2

interface AcquisitionsSettings extends HandOver {
  db: Db
  fleet: Fleet
  fitter: Fitter
  profiles: SessionProfiles
  present: Present
  calls: OpenCalls
  /** Ends the calls and connections of a caller, here and at other replicas. Does not wait for their ends. */
  dismiss: (session: AcquiredSession) => Promise<void>
  /** Ends the recordings of a session. @throws when that does not work */
  stopRecordings: (session: { id: string; endpoint: Endpoint }) => Promise<void>
}

/** The fields of a pool that acquire and release need. */
interface Pool {
  id: string
  name: string | null
}

export type Acquisitions = ReturnType<typeof makeAcquisitions>

export function makeAcquisitions(settings: AcquisitionsSettings) {
  const { db, fleet, fitter, profiles, present, activity, uses, calls, dismiss, stopRecordings, log } = settings
  const { at, fit, fitNew } = fitter
  const { lending } = fleet

  /** The settings that undo what the caller has changed. */
  function changedBack(row: BrowserRow, { options: before }: Baseline): Fit {
    const isSame = (name: keyof Baseline['options']) => isDeepStrictEqual(row.options[name], before[name])
    return {
      // 0: the timeout of a browser that no caller has.
      timeout_seconds: 0,
      let_go: true,
      ...(row.options.telemetry && { telemetry: fittedTelemetry(undefined) }),
      ...(!(isSame('proxy_id') && isSame('network')) && { proxy: { on: true } }),
      ...(!isSame('viewport') && { viewport: before.viewport }),
    }
  }

  /** Whether another caller may have the browser: it has no profile of this caller, and no old version of the pool's profile. */
  const isReusable = async (row: BrowserRow): Promise<boolean> =>
    row.profile_id === ((row.pool_baseline as Baseline).profile_id ?? null) && !row.profile_save && !(await hasOldProfile(db, row.id))

  /** Brings a browser that was taken back to the state in which its pool has made it. @throws when that does not work */
  async function restore(row: BrowserRow): Promise<void> {
    const signal = AbortSignal.timeout(WARM_FIT_MS)
    using held = new DisposableStack()
    held.defer(uses.hold(row.id))
    await within('the notice of a release', NOTICE_MS, dismiss(row))
    await until('the calls of a caller', CALLS_MS, () => activity.held(row.id) + calls.updates(row.id) === 0, { everyMs: 5, signal })
    // This also ends connections through another replica, which may have missed the notice.
    await call(at(row).endpoint, session.dismissClients, {}, { signal })
    // Stop recordings after the calls: one of the calls may just have started a recording.
    await within('the end of recordings', RECORDINGS_MS, stopRecordings(at(row)))
    // Read the row again: an update may have changed it meanwhile.
    const now = await pooledBrowser(db, row.pool_id!, row.id)
    if (now?.state !== 'releasing') throw new Error('the browser has ended meanwhile')
    if (!(await isReusable(now))) throw new Error("it has got a profile of its caller's")
    const baseline = row.pool_baseline as Baseline
    await fit({ ...now, options: baseline.options }, changedBack(now, baseline), signal, WARM_FIT_MS)
  }

  /** Restores a browser that was taken back and makes it wait for the next caller. Ends the browser if that fails. */
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
    /**
     * Lends the caller a browser of the pool, in the order of callers. Undefined when none was free within `waitMs`. @throws 404 when the pool was deleted; 409
     * when another session has the name; the reason why the pool cannot make a browser; the signal's reason
     */
    async acquire(
      pool: Pool,
      acquisition: Acquisition,
      profile: Chosen | undefined,
      waitMs: number,
      origin: string,
      signal: AbortSignal,
    ): Promise<Browser | undefined> {
      const late = AbortSignal.timeout(waitMs)
      for (let left = LEND_TRIES; ; left--) {
        let row: BrowserRow | undefined
        try {
          row = await named(acquisition.name, lending.lend(pool.id, acquisition, signal, late))
        } catch (error) {
          signal.throwIfAborted()
          if (error === late.reason) return undefined
          // The pool's configuration is wrong, not this call.
          if (error instanceof PoolBootFailed)
            throw new Unavailable(`the pool has no browser, and cannot make one: ${problemOf(error.cause)}`, RETRY_SECONDS, error, true)
          throw error
        }
        if (!row) throw fault.notFound('browser pool', pool.id)
        // The caller has disconnected and would never give the browser back.
        if (signal.aborted) {
          if (await lending.takeBack(row)) await putBack(row)
          signal.throwIfAborted()
        }
        const lent = row
        const configure = async () => {
          const loaded = profile && (await profiles.load(at(lent), profile, { keepTabs: acquisition.start_url === undefined, isUpdate: true }, signal))
          const { telemetry } = lent.options
          // A browser that waits in a pool captures nothing.
          const wanted = {
            ...(telemetry && { telemetry: fittedTelemetry(telemetry) }),
            ...(acquisition.start_url !== undefined && { start_url: acquisition.start_url }),
          }
          await fitNew(lent, wanted, signal, WARM_FIT_MS)
          return (await present([{ ...lent, ...loaded }], origin, new Map([[pool.id, pool.name ?? undefined]])))[0]
        }
        const browser = await handOver(settings, { row: lent, configure, mayReplace: () => left > 1, field: 'start_url', signal })
        if (browser) return browser
      }
    },
    /** Gives a browser back, or ends it. Resolves when no caller can reach it. @throws 404 when the browser is not of this pool, or has ended */
    async release(pool: Pool, id: string, reuse: boolean): Promise<void> {
      const row = await pooledBrowser(db, pool.id, id)
      if (!row || row.created_at === null) throw fault.notFound('browser', id)
      // A repeated release: the client did not get the first answer.
      if (row.state !== 'running') return
      const taken = await lending.takeBack(row)
      if (!taken) return
      // An update may still be loading a profile. The row already names it, so the browser is not reusable. If the update fails because the session has ended,
      // the browser may have a profile that its row does not name.
      if (reuse && (await isReusable(taken))) return putBack(taken)
      await fleet.takeOut(id, 'released')
    },
  }
}
