// Removes the rows of profiles that were deleted long ago. Their versions went when they were deleted.
import { sql } from 'kysely'
import { deletedBefore, removeRows } from '../../../store/batches.ts'
import type { Db } from '../../../store/db.ts'
import type { Purge } from '../../module.ts'

/** Profiles that were deleted more than `days` ago. One that the row of a session names stays as long as that row. */
export const deletedProfiles = (db: Db, days: number): Purge => ({
  what: 'profiles',
  run: (signal) => removeRows(db, signal, 'profiles', sql`${deletedBefore(days)} and not exists (select from browsers b where b.profile_id = profiles.id)`),
})
