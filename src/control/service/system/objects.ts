// Maintains the object store: removes objects that no row names, and reports objects that a row names but that are missing.
import type { Log } from '../../../base/log.ts'
import { sleep } from '../../../base/wait.ts'
import type { Db } from '../../../store/db.ts'
import { isHeld } from '../../../store/held-objects.ts'
import type { Objects } from '../../../store/objects.ts'
import { belongTo, findMissing, madeAt, removeUnnamed, type ObjectOwner } from '../../../store/sweep.ts'

const SWEEP_MS = 3600_000
/**
 * Younger objects may belong to a row that is not written yet. Longer than the longest upload (`PUT_MS`) and the longest time from it to its row (`FRESH_MS` of
 * replays), with hours to spare for clocks that differ.
 */
export const GRACE_MS = 24 * 3600_000
/** Keys that one line of the log names. */
const NAMED_IN_LOG = 10

interface ObjectCareSettings {
  db: Db
  objects: Objects
  owners: readonly ObjectOwner[]
  /** Whether other services may use the same store, for example a bucket: then only the database that owns the store sweeps it. */
  isShared?: boolean
  /** Whether this replica removes objects. Only one replica does. */
  isOurs?: () => boolean
  log: Log
}

/** Checks at once, in the background, and sweeps every hour. Disposing stops it. */
export function careForObjects(settings: ObjectCareSettings): AsyncDisposable {
  const { objects, owners, log } = settings
  const stop = new AbortController()
  const attempt = (what: string, work: () => Promise<void>) =>
    work().catch((err: unknown) => {
      if (!stop.signal.aborted) log.error({ err }, `${what} did not work`)
    })
  const report = async () => {
    const missing = await findMissing(objects, owners, stop.signal)
    if (missing.length > 0) log.error({ count: missing.length, keys: missing.slice(0, NAMED_IN_LOG) }, 'objects that rows name are gone')
  }
  const run = async () => {
    await attempt('checking that all objects are there', report)
    for (;;) {
      if (settings.isOurs?.() ?? true) await attempt('removing objects that nobody needs', () => sweepObjects(settings, stop.signal))
      await sleep(SWEEP_MS, stop.signal)
    }
  }
  const running = run().catch(() => {}) // ends only by its signal
  return {
    async [Symbol.asyncDispose]() {
      stop.abort(new Error('the service stops'))
      await running
    },
  }
}

/** One sweep. */
export async function sweepObjects({ db, objects, owners, isShared, log }: ObjectCareSettings, signal: AbortSignal, graceMs = GRACE_MS): Promise<void> {
  const before = new Date(Date.now() - graceMs)
  const after = await madeAt(db)
  if (isShared && !(await belongTo(objects, after, signal)))
    return log.error({}, 'the bucket belongs to another database, so nothing in it is removed: give each its own COB_S3_PREFIX (or remove the object "owner")')
  // A backup may still have to copy them.
  if (await isHeld(db)) return log.info({}, 'a backup runs, so no object is removed before the next sweep')
  const { removed, foreign, failures } = await removeUnnamed(objects, owners, { after, before }, signal)
  if (removed.length > 0) log.info({ count: removed.length, keys: removed.slice(0, NAMED_IN_LOG) }, 'objects that no row names were removed')
  if (foreign > 0) log.warn({ count: foreign }, 'objects that no row names are older than the database; they are kept')
  await objects.dropUnfinished(before, signal).catch((error: unknown) => failures.push(error))
  if (failures.length > 0) throw new AggregateError(failures, `a sweep had ${failures.length} failures: ${String(failures[0])}`)
}
