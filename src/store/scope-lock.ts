// One control plane per data directory, or several that know of each other (leases.ts): others would both manage the same instances.
import { sql } from 'kysely'
import type { Db } from './db.ts'

export interface ScopeLock {
  /** Takes the lock again when the database session that held it has broken. @throws when another process has taken it */
  ensure(): Promise<void>
  release(): Promise<void>
}

/**
 * Takes the scope's lock: alone, or `shared` with others that share it as well. It is held by our database session, so it is released when this process
 * dies. @throws when another process holds it, and one of the two does not share it
 */
export async function holdScope(db: Db, scope: string, shared = false): Promise<ScopeLock> {
  let held = await take(db, scope, shared)
  return {
    async ensure() {
      if (!(await held.isAlive())) held = await take(db, scope, shared)
    },
    release: () => held.release(),
  }
}

async function take(db: Db, scope: string, shared: boolean): Promise<{ isAlive(): Promise<boolean>; release(): Promise<void> }> {
  const locked = Promise.withResolvers<() => Promise<boolean>>()
  const done = Promise.withResolvers<void>()
  const session = db.connection().execute(async (connection) => {
    const lock = sql.ref(shared ? 'pg_try_advisory_lock_shared' : 'pg_try_advisory_lock')
    const { rows } = await sql<{ locked: boolean }>`select ${lock}(hashtextextended(${`cob:${scope}`}, 0)) as locked`.execute(connection)
    if (!rows[0]?.locked) throw new Error('another Cob runs with this data directory already; several may share it if all of them have COB_REPLICAS=1')
    locked.resolve(() =>
      sql`select 1`.execute(connection).then(
        () => true,
        () => (done.resolve(), false),
      ),
    )
    await done.promise
    // The session may be broken by now. Then the lock has been released already.
    await sql`select pg_advisory_unlock_all()`.execute(connection).catch(() => {})
  })
  session.catch(locked.reject)
  const isAlive = await locked.promise
  return {
    isAlive,
    async release() {
      done.resolve()
      await session.catch(() => {})
    },
  }
}
