// Removes what the authorization server needs no longer.
import { sql } from 'kysely'
import { inBatches } from '../../../store/batches.ts'
import type { Db } from '../../../store/db.ts'
import type { Purge } from '../../module.ts'

const AT_ONCE = 1_000
/** A client that registers and whose person allows nothing within so long registers again. */
const UNUSED_DAYS = 30

/** Grants that have expired, or whose key was deleted, with their tokens; tokens that have expired; clients without a grant. */
export const endedGrants = (db: Db): Purge => ({
  what: 'grants of OAuth clients',
  async run(signal) {
    let removed = 0
    for (const statement of [
      (limit: number) => sql`
        delete from oauth_grants where id in (
          select g.id from oauth_grants g left join api_keys k on k.id = g.key_id where g.expires_at < now() or k.deleted_at < now() limit ${limit})`,
      (limit: number) => sql`delete from oauth_tokens where hash in (select hash from oauth_tokens where expires_at < now() limit ${limit})`,
      (limit: number) => sql`
        delete from oauth_clients where id in (
          select c.id from oauth_clients c where c.created_at < now() - make_interval(days => ${UNUSED_DAYS})
            and not exists (select from oauth_grants g where g.client_id = c.id) limit ${limit})`,
    ])
      removed += await inBatches(AT_ONCE, signal, async (limit) => Number((await statement(limit).execute(db)).numAffectedRows ?? 0))
    return removed
  },
})
