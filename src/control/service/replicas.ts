// Who does what when several replicas share a scope: leases.
import type { Config } from '../../base/config.ts'
import type { Log } from '../../base/log.ts'
import { connectDb, type DbAddress } from '../../store/db.ts'
import { alone, shareLeases, type Leases } from '../../store/leases.ts'

/** Who does what: this service everything, unless it is one of several replicas, or another process has taken the scope (`lost`). What it opens is closed with `opened`. */
export async function takeLeases(
  { replicas }: Config,
  address: DbAddress,
  scope: string,
  replica: string,
  duties: readonly string[],
  log: Log,
  opened: AsyncDisposableStack,
  lost: AbortSignal,
): Promise<Leases> {
  if (!replicas) return alone(replica, lost)
  // Connections of their own: a renewal must not wait for the queries of callers.
  const db = connectDb(address, log)
  opened.defer(() => db.destroy())
  return opened.use(await shareLeases(db, scope, replica, duties, log))
}
