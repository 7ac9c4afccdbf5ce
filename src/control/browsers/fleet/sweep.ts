// What the fleet looks for every second: sessions whose timeout has passed, ends that are not finished, rows without an instance.
import type { Log } from '../../../base/log.ts'
import type { Db } from '../../../store/db.ts'
import { liveOnHost, timedOut, type LiveRow } from '../rows.ts'
import type { Endings } from './endings.ts'
import type { Registry } from './registry.ts'

interface SweepSettings {
  db: Db
  host: string
  registry: Registry
  endings: Endings
  /** Has ready instances replaced that have ended. */
  refill: () => void
  log: Log
}

/** Makes the sweep. It does not wait for any end that it begins. */
export function makeSweep({ db, host, registry, endings, refill, log }: SweepSettings): () => Promise<void> {
  /** Rows that had nothing behind them at the last sweep. */
  let missing = new Set<string>()
  const begin = (id: string, work: Promise<unknown>) =>
    void work.catch((err: unknown) => log.error({ err, browser: id }, 'a browser could not be ended yet; the next sweep tries again'))
  const isMissing = ({ id, state }: LiveRow) =>
    state === 'starting' ? !registry.isBooting(id) : (state === 'running' || state === 'warm') && !registry.runs(id)

  async function endMissing(id: string): Promise<void> {
    const { why, reason } = registry.whyGone(id) ?? { why: 'crashed', reason: 'crashed' }
    await endings.crashed(id, why, reason)
    refill()
  }

  return async () => {
    for (const id of await timedOut(db, host)) begin(id, endings.end(id, 'timeout'))
    const rows = await liveOnHost(db, host)
    for (const row of rows) if ((row.state === 'stopping' || row.state === 'failed') && endings.isDue(row.id)) begin(row.id, endings.resume(row, 'crashed'))
    // A row that is seen once without an instance may be in a move. When it is seen twice, its instance has ended unnoticed, or the database has not
    // taken the end of its start.
    const found = rows.filter(isMissing).map(({ id }) => id)
    for (const id of found.filter((one) => missing.has(one))) begin(id, endMissing(id))
    missing = new Set(found)
  }
}
