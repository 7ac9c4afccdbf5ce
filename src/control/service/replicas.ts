// Assigns duties when several replicas share a scope, by leases.
import type { Config } from '../../base/config.ts'
import type { Log } from '../../base/log.ts'
import { connectDb, type Db, type DbAddress } from '../../store/db.ts'
import { notify } from '../../store/events.ts'
import { alone, shareLeases, type Leases } from '../../store/leases.ts'

/**
 * The leases of this service: it has every duty, unless it is one of several replicas, or another process has taken the scope (`lost`). `opened` closes what
 * this opens.
 */
export async function takeLeases(
  { replicas }: Config,
  { db, address, lost }: { db: Db; address: DbAddress; lost: AbortSignal },
  scope: string,
  replica: string,
  duties: readonly string[],
  log: Log,
  opened: AsyncDisposableStack,
): Promise<Leases> {
  if (!replicas) return alone(replica, lost)
  // A separate connection pool: a renewal must not wait for the queries of callers.
  const own = connectDb(address, log)
  opened.defer(() => own.destroy())
  return opened.use(await shareLeases(own, scope, replica, duties, (notice, text) => notify(db, notice, text), log))
}
