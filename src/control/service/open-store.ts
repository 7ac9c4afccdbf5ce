// Opens the database of a service, the embedded one or an external one, and monitors it.
import { setInterval } from 'node:timers/promises'
import type { Config } from '../../base/config.ts'
import type { Log } from '../../base/log.ts'
import type { DataPaths } from '../../base/paths.ts'
import type { Disk } from './system/disk.ts'
import { announce } from '../../base/presence.ts'
import { checkDatabaseUrl } from '../../store/database-url.ts'
import { connectDb, upgradeDb, type Db, type DbAddress } from '../../store/db.ts'
import { startPostgres } from '../../store/embedded.ts'
import { resultWithin } from '../../base/wait.ts'
import { holdScope, ScopeTaken } from '../../store/scope-lock.ts'

/** How often the embedded Postgres and the scope's lock are checked. */
const STORE_CHECK_MS = 1_000
/** Limit on the check before a service ends its sessions. */
const LAST_CHECK_MS = 2_000

export interface Store {
  db: Db
  address: DbAddress
  /** Aborts when another process has taken the scope: the instances belong to it then. */
  lost: AbortSignal
  /** Checks whether that has just happened, as far as the database tells. */
  check(): Promise<void>
}

/** Opens the database and ensures that no other service works with this scope's data, now and later. */
export async function openStore(
  config: Config,
  paths: DataPaths,
  scope: string,
  log: Log,
  signal: AbortSignal,
  opened: AsyncDisposableStack,
  disk: Pick<Disk, 'makeRoomToStart'>,
): Promise<Store> {
  if (config.databaseUrl) await checkDatabaseUrl(config.databaseUrl, signal)
  const postgres = config.databaseUrl ? undefined : await startPostgres(paths, log, signal)
  // Until we hold the lock, an already running Postgres may belong to another service.
  let isOurs = false
  const lost = new AbortController()
  opened.defer(async () => {
    if (isOurs && !lost.signal.aborted) await postgres?.stop()
  })
  const address = postgres?.address ?? { connectionString: config.databaseUrl! }
  const db = connectDb(address, log)
  opened.defer(() => db.destroy())
  // Lock before the upgrade: an older service that does not share its scope could not work with the new tables.
  const lock = await holdScope(db, scope, { shared: config.replicas, port: config.port })
  // Register the release at once: while the lock holds its connection, closing the pool would wait for ever.
  opened.defer(() => lock.release())
  isOurs = true
  const presence = opened.use(await announce(paths.root))
  const ended = new AbortController()
  const ensureLock = () =>
    lock.ensure().catch((error: unknown) => {
      if (error instanceof ScopeTaken) lost.abort(error)
      throw error
    })
  const check = async () => {
    if (lost.signal.aborted) return
    await postgres?.ensure(ended.signal, () => disk.makeRoomToStart())
    await ensureLock()
    presence.seen()
  }
  const run = async () => {
    for await (const _ of setInterval(STORE_CHECK_MS, undefined, { signal: ended.signal }))
      await check().catch((err: unknown) => ended.signal.aborted || log.error({ err }, 'the database is in trouble'))
  }
  const running = run().catch(() => {}) // ends only by its signal
  opened.defer(async () => {
    ended.abort(new Error('the service stops'))
    await running
  })
  await upgradeDb(address, signal)
  return {
    db,
    address,
    lost: lost.signal,
    async check() {
      await resultWithin(LAST_CHECK_MS, ensureLock()).catch((err: unknown) => log.warn({ err }, 'the lock of the scope could not be looked at'))
    },
  }
}
