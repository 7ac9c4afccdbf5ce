// The database of a service for a command beside it, whether the service runs or not.
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Config } from '../base/config.ts'
import { silentLog } from '../base/log.ts'
import { dataPaths, type DataPaths } from '../base/paths.ts'
import { checkDatabaseUrl } from '../store/database-url.ts'
import { connectDb, migratorOf, type Db, type DbAddress } from '../store/db.ts'
import { embeddedAddress, postgresRuns, startPostgres } from '../store/embedded.ts'
import { assertRestored } from './backup/marker.ts'
import { holdScope } from '../store/scope-lock.ts'

/**
 * Calls `work` with the database. The embedded one is started for it when it does not run; meanwhile no service can start.
 * @throws when there is none yet, or when it is of another version than this one
 */
export async function withDatabase<T>(config: Config, signal: AbortSignal, work: (db: Db, paths: DataPaths, address: DbAddress) => Promise<T>): Promise<T> {
  if (!existsSync(join(config.dataDir, 'host-id'))) throw new Error(`${config.dataDir} is not the data directory of a service (COB_DATA_DIR); start one first`)
  assertRestored(config.dataDir)
  const paths = dataPaths(config.dataDir)
  await using opened = new AsyncDisposableStack()
  if (config.databaseUrl) await checkDatabaseUrl(config.databaseUrl, signal)
  const isOurs = config.databaseUrl === undefined && !postgresRuns(paths)
  if (isOurs) {
    const postgres = await startPostgres(paths, silentLog, signal)
    opened.defer(() => postgres.stop())
  }
  const address: DbAddress = config.databaseUrl ? { connectionString: config.databaseUrl } : embeddedAddress(paths)
  const db = connectDb(address, silentLog)
  opened.defer(() => db.destroy())
  if (isOurs) {
    const lock = await holdScope(db, readFileSync(paths.hostId, 'utf8').trim())
    opened.defer(() => lock.release())
  }
  const migrations = await migratorOf(db).getMigrations()
  if (migrations.some(({ executedAt }) => executedAt === undefined))
    throw new Error('the database is of an older version of Cob; start the service of this version once, which brings it up to date')
  // Awaited here: what was opened is closed when this function returns.
  return await work(db, paths, address)
}
