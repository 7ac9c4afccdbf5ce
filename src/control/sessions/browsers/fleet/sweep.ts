// What the fleet looks for every second: browsers of dead replicas, sessions whose timeout has passed, ends that are not finished, rows without an
// instance.
import type { Log } from '../../../../base/log.ts'
import type { Db } from '../../../../store/db.ts'
import type { Leases } from '../../../../store/leases.ts'
import { letGo } from '../../../../instances/driver.ts'
import { timedOut, watchedBrowsers, watcherOf, type LiveRow } from '../rows.ts'
import type { Endings } from './endings.ts'
import type { Registry, Standing } from './registry.ts'

/** How often instances are looked for that no row knows: those that an engine has made after the call for them was given up. */
const UNKNOWN_MS = 5 * 60_000

interface SweepSettings {
  db: Db
  scope: string
  leases: Leases
  registry: Registry
  endings: Endings
  /** Takes over from dead replicas, and ends what cannot go on; resolves with false when that has to be tried again. */
  takeOver: () => Promise<boolean>
  /** Looks for an instance that a row of ours names and that we do not know; false when there is none. */
  find: (id: string, standing: Standing) => Promise<boolean>
  /** Removes instances that no row knows. */
  removeUnknown: () => Promise<void>
  /** Has ready instances replaced that have ended. */
  refill: () => void
  /** Begins to end a ready instance that is not needed any more. */
  trim: () => void
  log: Log
}

/** Makes the sweep. It does not wait for any end that it begins. */
export function makeSweep({ db, scope, leases, registry, endings, takeOver, find, removeUnknown, refill, trim, log }: SweepSettings): () => Promise<void> {
  /** Rows that had nothing behind them at the last sweep. */
  let missing = new Set<string>()
  let hadDuty = false
  const deaths = leases.deaths()
  let unknownAt = performance.now()
  const watched = { scope, replica: leases.replica }
  const begin = (id: string, work: Promise<unknown>) =>
    void work.catch((err: unknown) => log.error({ err, browser: id }, 'a browser could not be ended yet; the next sweep tries again'))
  const isMissing = ({ id, state }: LiveRow) =>
    !registry.isComing(id) && (state === 'starting' || (['running', 'releasing', 'warm'].includes(state) && !registry.runs(id)))

  async function endMissing({ id, state, pool_id: pool }: LiveRow): Promise<void> {
    // A takeover that broke off has left its row to us, and its instance to nobody.
    if (!registry.get(id) && (await find(id, { isReady: state === 'warm', isPooled: pool !== null }))) return
    const { why, reason } = registry.whyGone(id) ?? { why: 'crashed', reason: 'crashed' }
    await endings.crashed(id, why, reason)
    refill()
  }

  const isIdleHere = (id: string) => registry.get(id) !== undefined && !registry.isEnding(id) && !registry.isComing(id)

  /** Leaves a browser that is not ours any more to the replica that watches it. When its row was closed meanwhile, nobody else ends the instance. */
  async function giveAway(id: string): Promise<void> {
    const row = await watcherOf(db, id)
    const instance = registry.get(id)
    if (!instance || !isIdleHere(id) || row?.replica === leases.replica) return
    if (row) {
      log.warn({ browser: id }, 'another replica has taken over a browser')
      return registry.handOver(id)
    }
    log.warn({ browser: id }, 'a browser whose row was closed elsewhere is ended')
    registry.remove(id)
    await letGo(instance, log)
  }

  /** Brings what this process knows in line with the rows, which other replicas change, too. */
  function agree(known: readonly string[], rows: readonly LiveRow[]): void {
    const ours = new Map(rows.map((row) => [row.id, row]))
    for (const { id, state } of rows) {
      if (state === 'running' && registry.isReady(id)) registry.claim(id)
      if (state === 'warm' || state === 'releasing') registry.putBack(id)
    }
    for (const id of known) if (!ours.has(id) && isIdleHere(id)) begin(id, giveAway(id))
    const hasDuty = leases.holds('shelf')
    if (hasDuty && !hadDuty) refill()
    hadDuty = hasDuty
  }

  return async () => {
    // What is ours may belong to another replica by now. The next renewal shows it.
    if (!leases.isAlive) return
    if (deaths.isLookDue()) void takeOver().then((isDone) => isDone || deaths.lookAgain())
    // After a time without a database, uses at other replicas have to be recorded first.
    if (leases.mayTakeOver) for (const { id, state } of await timedOut(db, watched)) begin(id, endings.end(id, state === 'releasing' ? 'released' : 'timeout'))
    // Before the rows are read: what comes later has its row by then.
    const known = registry.instances.map(({ id }) => id)
    const rows = await watchedBrowsers(db, watched)
    leases.catchUp(() => agree(known, rows))
    for (const row of rows) if ((row.state === 'stopping' || row.state === 'failed') && endings.isDue(row.id)) begin(row.id, endings.resume(row, 'crashed'))
    // A row that is seen once without an instance may be in a move. When it is seen twice, its instance has ended unnoticed, or the database has not
    // taken the end of its start.
    const found = rows.filter(isMissing)
    for (const row of found.filter(({ id }) => missing.has(id))) begin(row.id, endMissing(row))
    missing = new Set(found.map(({ id }) => id))
    trim()
    if (leases.holds('shelf') && performance.now() - unknownAt > UNKNOWN_MS) {
      unknownAt = performance.now()
      void removeUnknown().catch((err: unknown) => log.warn({ err }, 'instances that no row knows could not be removed; it is tried again later'))
    }
  }
}
