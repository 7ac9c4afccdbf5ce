// Opens the database of a service for a command, whether the service runs or not.
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Config } from '../../base/config.ts'
import { silentLog } from '../../base/log.ts'
import { dataPaths, type DataPaths } from '../../base/paths.ts'
import { checkDatabaseUrl } from '../../store/database-url.ts'
import { connectDb, type Db, type DbAddress } from '../../store/db.ts'
import { embeddedAddress, postgresRuns, startPostgres } from '../../store/embedded.ts'
import { assertRestored } from './backup/marker.ts'
import { schemaOf, tooOld } from '../../store/schema.ts'
import { holdScope } from '../../store/scope-lock.ts'

export { breaks, standingOf } from '../../store/schema.ts'

type Work<T> = (db: Db, paths: DataPaths, address: DbAddress, scope: string) => Promise<T>

/**
 * Calls `work` with the database. Starts the embedded one if it does not run; meanwhile no service can start.
 * @throws when there is none yet, or when it has another version than this command
 */
export const withDatabase = <T>(config: Config, signal: AbortSignal, work: Work<T>): Promise<T> =>
  withAnyDatabase(config, signal, async (db, ...rest) => {
    const { pending, unknown } = await schemaOf(db)
    const old = tooOld(unknown)
    if (old !== undefined) throw new Error(`the database ${old}`)
    if (pending.length > 0) throw new Error('the database is of an older version of Cob; start the service of this version once, which brings it up to date')
    if (unknown.length > 0) throw new Error('the database is of a newer version of Cob; use the command of that version')
    return await work(db, ...rest)
  })

/** As {@link withDatabase}, with a database of any version. */
export async function withAnyDatabase<T>(config: Config, signal: AbortSignal, work: Work<T>): Promise<T> {
  if (config.scope === undefined && !existsSync(join(config.dataDir, 'host-id')))
    throw new Error(`${config.dataDir} is not the data directory of a service (COB_DATA_DIR); start one first`)
  if (config.databaseUrl === undefined && !existsSync(join(config.dataDir, 'postgres')))
    throw new Error(`${config.dataDir} has no database of its own: set DATABASE_URL as the service has it`)
  assertRestored(config.dataDir)
  const paths = dataPaths(config.dataDir)
  const scope = config.scope ?? readFileSync(paths.hostId, 'utf8').trim()
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
    const lock = await holdScope(db, scope)
    opened.defer(() => lock.release())
  }
  // Await it here: this function closes everything when it returns.
  return await work(db, paths, address, scope)
}
