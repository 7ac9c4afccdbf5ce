// Keeps objects while a backup runs. The backup's rows are of one moment, and their objects must exist until they are copied.
import { sql } from 'kysely'
import type pg from 'pg'
import type { Db } from './db.ts'
import type { Objects } from './objects.ts'

const LOCK = 'cob:backup'
/** Limit on the wait for the lock: its other users hold it for one statement. */
const LOCK_MS = 3_000

/**
 * The same store, which removes no object while a backup runs; the sweep removes such objects later. An object's row is always removed first, so a backup that
 * begins just after this check does not see the row.
 */
export const heldByBackups = (objects: Objects, db: Db): Objects => ({
  put: (...given) => objects.put(...given),
  putFile: (...given) => objects.putFile(...given),
  get: (...given) => objects.get(...given),
  list: (...given) => objects.list(...given),
  dropUnfinished: (...given) => objects.dropUnfinished(...given),
  async delete(key, signal) {
    if (!(await isHeld(db))) await objects.delete(key, signal)
  },
  [Symbol.dispose]: () => objects[Symbol.dispose](),
})

/** Whether a backup of this database runs. */
export async function isHeld(db: Db): Promise<boolean> {
  const { rows } = await sql<{ free: boolean }>`select pg_try_advisory_xact_lock_shared(hashtextextended(${LOCK}, 0)) as free`.execute(db)
  return !rows[0]!.free
}

/** Keeps the objects until this connection ends. @throws when another backup runs */
export async function holdObjects(client: pg.ClientBase): Promise<void> {
  await client.query(`set lock_timeout = ${LOCK_MS}`)
  try {
    await client.query('select pg_advisory_lock(hashtextextended($1, 0))', [LOCK])
  } catch (error) {
    if ((error as { code?: string }).code === '55P03') throw new Error('another backup of this database runs; wait until it has ended', { cause: error })
    throw error
  }
  await client.query('set lock_timeout = 0')
}
