// One control plane a data directory: two would both believe the same instances theirs.
import { sql } from 'kysely'
import type { Db } from './db.ts'

/** Holds the host's lock until the scope ends; it frees itself when we die, for it lives in our database session. @throws when another holds it. */
export async function holdHost(db: Db, host: string, scope: AsyncDisposableStack): Promise<void> {
  const held = Promise.withResolvers<void>()
  const release = Promise.withResolvers<void>()
  const connection = db.connection().execute(async (session) => {
    const { rows } = await sql<{ locked: boolean }>`select pg_try_advisory_lock(hashtextextended(${`cob:${host}`}, 0)) as locked`.execute(session)
    if (!rows[0]?.locked) throw new Error('another Cob runs with this data directory already')
    held.resolve()
    await release.promise
    await sql`select pg_advisory_unlock_all()`.execute(session)
  })
  connection.catch(held.reject)
  await held.promise
  scope.defer(async () => {
    release.resolve()
    // The database may be gone before us; then so is the lock.
    await connection.catch(() => {})
  })
}
