// Removes web sessions that have ended.
import { sql } from 'kysely'
import { removeRows } from '../../../store/batches.ts'
import type { Db } from '../../../store/db.ts'
import type { Purge } from '../../module.ts'

/** Sessions that have expired, and those of keys that were deleted. */
export const endedWebSessions = (db: Db): Purge => ({
  what: 'web sessions',
  run: (signal) => removeRows(db, signal, 'web_sessions', sql`(expires_at < now() or key_id in (select id from api_keys where deleted_at < now()))`),
})
