// Takes over the instances of services that have ended, and ends every row and instance that has no counterpart.
import type { Log } from '../../../../base/log.ts'
import { letGo, type Driver, type Instance } from '../../../../instances/driver.ts'
import type { Db } from '../../../../store/db.ts'
import type { Leases } from '../../../../store/leases.ts'
import { ended, moveBrowser } from '../lifecycle.ts'
import { liveIds, takeOverBrowsers, watcherOf, type LiveRow } from '../rows.ts'
import { reasonOf, type Endings } from './endings.ts'
import type { Registry, Standing } from './registry.ts'

interface AdoptionSettings {
  db: Db
  driver: Driver
  scope: string
  leases: Leases
  registry: Registry
  endings: Endings
  /** Registers an instance and watches for its end. */
  keep: (instance: Instance, standing: Standing) => void
  log: Log
}

/**
 * Makes this replica the one that watches the browsers of dead ones (alone: of all earlier services), and registers their instances. Returns the rows that
 * must be ended.
 */
export async function takeOver({ db, driver, scope, leases, registry, keep, log }: AdoptionSettings): Promise<LiveRow[]> {
  const rows = await takeOverBrowsers(db, scope, leases)
  if (rows.length === 0) return []
  const take = async (row: LiveRow): Promise<LiveRow | undefined> => {
    using _ = registry.taking(row.id)
    // A replica that was only slow has lost it and found it again.
    const instance = registry.get(row.id) ?? (await driver.adopt(row.id))
    // Somebody may have claimed or ended it meanwhile.
    const now = await watcherOf(db, row.id)
    const isPooled = row.pool_id !== null
    if (instance && (now?.state === 'running' || now?.state === 'warm')) {
      const { state } = now
      // A ready one of an older version is replaced: its row does not say that it is older.
      if (state === 'warm' && instance.agent.older) {
        registry.add(instance, { isReady: false, isPooled })
        return now
      }
      log.info({ browser: row.id, state }, 'adopted a browser that outlived the last service')
      if (!registry.get(row.id)) keep(instance, { isReady: state === 'warm', isPooled })
      return undefined
    }
    if (!now) {
      if (instance) await letGo(instance, log)
      return undefined
    }
    // It was ending, or had not come up. Nobody watches it: it is ended now, or later by the sweep.
    if (instance) registry.add(instance, { isReady: false, isPooled })
    // Steps that are done may have been the last ones to need its agent.
    if (now.ended_steps.length > 0) registry.beginEnd(row.id)
    return now
  }
  const tried = rows.map((row) =>
    take(row).catch((err: unknown) => {
      log.error({ err, browser: row.id }, 'a browser could not be taken over yet; the sweep tries again')
      return undefined
    }),
  )
  return (await Promise.all(tried)).filter((row) => row !== undefined)
}

/** After a start: removes instances that no row knows. */
export async function removeUnknown({ db, driver, scope, log }: Pick<AdoptionSettings, 'db' | 'driver' | 'scope' | 'log'>): Promise<void> {
  // In this order: a row is there before its instance.
  const found = await driver.found()
  const known = new Set(await liveIds(db, scope))
  const remove = async (id: string) => {
    const instance = await driver.adopt(id)
    if (instance) await letGo(instance, log)
  }
  await Promise.all(found.filter(({ id }) => !known.has(id)).map(({ id }) => remove(id)))
}

/** Ends the browsers of these rows. Resolves after one attempt at each; the sweep retries. */
export async function endLost(rows: readonly LiveRow[], { db, endings, log }: Pick<AdoptionSettings, 'db' | 'endings' | 'log'>): Promise<void> {
  const end = async (row: LiveRow) => {
    log.warn({ browser: row.id, state: row.state }, 'a browser was lost with the last service')
    const reason = reasonOf(row, 'lost')
    if (row.state !== 'stopping') await moveBrowser(db, row.id, 'failed', reason, ended(reason))
    await endings.resume(row, 'lost')
  }
  await Promise.all(rows.map(end))
}
