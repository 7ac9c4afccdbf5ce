// Removes the rows of profiles that were deleted long ago. Their versions were removed with the delete.
import { sql } from 'kysely'
import { deletedBefore, removeRows } from '../../../store/batches.ts'
import type { Db } from '../../../store/db.ts'
import type { Purge } from '../../module.ts'

/** Profiles that were deleted more than `days` ago. A profile stays as long as the row of a session names it. */
export const deletedProfiles = (db: Db, days: number): Purge => ({
  what: 'profiles',
  run: (signal) => removeRows(db, signal, 'profiles', sql`${deletedBefore(days)} and not exists (select from browsers b where b.profile_id = profiles.id)`),
})
