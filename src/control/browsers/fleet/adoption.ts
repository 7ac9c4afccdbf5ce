// After a start: takes over the instances that outlived the last service, and ends every instance and row that has no counterpart.
import { sql } from 'kysely'
import type { Log } from '../../../base/log.ts'
import { letGo, type Driver, type Instance } from '../../../instances/driver.ts'
import type { Db } from '../../../store/db.ts'
import { moveBrowser } from '../lifecycle.ts'
import { liveOnHost, type LiveRow } from '../rows.ts'
import { reasonOf, type Endings } from './endings.ts'
import type { Registry } from './registry.ts'

interface AdoptionSettings {
  db: Db
  driver: Driver
  host: string
  registry: Registry
  endings: Endings
  /** Registers an instance and watches for its end. */
  keep: (instance: Instance, isReady: boolean) => void
  log: Log
}

/** Registers every instance that still runs and has a row, and lets go of those without one. Returns the rows that must be ended. */
export async function adopt({ db, driver, host, registry, keep, log }: AdoptionSettings): Promise<LiveRow[]> {
  const [instances, rows] = await Promise.all([driver.list(), liveOnHost(db, host)])
  const running = new Map(instances.map((instance) => [instance.id, instance]))
  const lost: LiveRow[] = []
  for (const row of rows) {
    const instance = running.get(row.id)
    running.delete(row.id)
    if (instance && (row.state === 'running' || row.state === 'warm')) {
      log.info({ browser: row.id, state: row.state }, 'adopted a browser that outlived the last service')
      keep(instance, row.state === 'warm')
      continue
    }
    // It was ending, or had not come up. Nobody watches it: it is ended now, or later by the sweep.
    if (instance) registry.add(instance, false)
    // Steps that are done may have been the last ones to need its agent.
    if (row.ended_steps.length > 0) registry.beginEnd(row.id)
    lost.push(row)
  }
  await db
    .updateTable('browsers')
    .set({ last_active_at: sql`now()` })
    .where('host', '=', host)
    .where('state', '=', 'running')
    .execute()
  await Promise.all([...running.values()].map((instance) => letGo(instance, log)))
  return lost
}

/** Ends the browsers of these rows. Resolves after one attempt at each; the sweep retries. */
export async function endLost(rows: readonly LiveRow[], { db, endings, log }: Pick<AdoptionSettings, 'db' | 'endings' | 'log'>): Promise<void> {
  const end = async (row: LiveRow) => {
    log.warn({ browser: row.id, state: row.state }, 'a browser was lost with the last service')
    const reason = reasonOf(row, 'lost')
    if (row.state !== 'stopping') await moveBrowser(db, row.id, 'failed', reason, { end_reason: reason })
    await endings.resume(row, 'lost')
  }
  await Promise.all(rows.map(end))
}
