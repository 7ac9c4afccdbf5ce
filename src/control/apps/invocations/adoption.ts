// Takes over the runs of services that have ended, and removes the sandboxes that they left.
import type { Log } from '../../../base/log.ts'
import { letGo, type AppSandbox, type Driver, type Found } from '../../../instances/driver.ts'
import type { Db } from '../../../store/db.ts'
import { isDead, type Leases } from '../../../store/leases.ts'
import { takeOverRuns, type InvocationRow } from './rows.ts'

interface AdoptionSettings {
  db: Db
  scope: string
  driver: Driver
  leases: Leases
  /** Runs that are being taken over. The sweep must not treat them as lost meanwhile. */
  taking: Set<string>
  /** Whether this process follows a run. */
  isKnown: (id: string) => boolean
  /** Continues a run in its sandbox, or starts one that has none yet. */
  add: (row: InvocationRow, instance: AppSandbox | undefined) => void
  /** Ends a run that cannot continue. */
  lost: (id: string) => Promise<unknown>
  log: Log
}

/** Continues the runs of services that have ended (a service alone: of all earlier ones), starts those that were queued, and ends the rest. */
export async function takeOver({ db, scope, driver, leases, taking, isKnown, add, lost, log }: AdoptionSettings): Promise<void> {
  const rows = await takeOverRuns(db, scope, leases)
  for (const { id } of rows) taking.add(id)
  const take = async (row: (typeof rows)[number]) => {
    try {
      if (isKnown(row.id)) return
      const instance = row.runner_id === null ? undefined : await driver.apps.adopt(row.runner_id)
      if (row.state === 'running' && instance) {
        log.info({ invocation: row.id }, 'adopted a run that outlived the last service')
        add(row, instance)
      } else if (row.state === 'queued' && !row.overdue) add(row, undefined)
      else {
        log.warn({ invocation: row.id, state: row.state }, 'a run was lost with the last service')
        await lost(row.id)
      }
    } finally {
      taking.delete(row.id)
    }
  }
  const failed = (row: (typeof rows)[number]) => (err: unknown) =>
    log.error({ err, invocation: row.id }, 'a run could not be taken over yet; the sweep tries again')
  await Promise.all(rows.map((row) => take(row).catch(failed(row))))
}

/** Removes those sandboxes in `found` that are not in use and that no living replica has started. */
export async function removeUnused(
  found: readonly Found[],
  isUsed: (sandbox: string) => boolean,
  { db, driver, leases, log }: Pick<AdoptionSettings, 'db' | 'driver' | 'leases' | 'log'>,
): Promise<void> {
  const look = async ({ id, replica }: Found) => {
    if (isUsed(id) || (replica !== undefined && !(await isDead(db, leases, replica)))) return
    const instance = await driver.apps.adopt(id)
    if (instance) await letGo(instance, log)
  }
  await Promise.all(found.map(look))
}
