// Removes the rows of profiles that were deleted long ago. Their versions went when they were deleted.
import { sql } from 'kysely'
import { inBatches } from '../../../store/batches.ts'
import type { Db } from '../../../store/db.ts'
import type { Purge } from '../../module.ts'

const AT_ONCE = 500

/** Profiles that were deleted more than `days` ago. One that the row of a session names stays as long as that row. */
export const deletedProfiles = (db: Db, days: number): Purge => ({
  what: 'profiles',
  run: (signal) =>
    inBatches(AT_ONCE, signal, async (limit) => {
      const { numAffectedRows } = await sql`
        delete from profiles where id in (
          select p.id from profiles p
          where p.deleted_at < now() - ${days} * interval '1 day' and not exists (select from browsers b where b.profile_id = p.id)
          limit ${limit})`.execute(db)
      return Number(numAffectedRows ?? 0)
    }),
})
