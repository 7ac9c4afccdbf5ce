// Removes data that the authorization server does not need any more.
import { sql } from 'kysely'
import { removeRows } from '../../../store/batches.ts'
import type { Db } from '../../../store/db.ts'
import type { Purge } from '../../module.ts'

/** A client without a grant is removed after this time, and can register again. */
const UNUSED_DAYS = 30

/** Grants that have expired, or whose key was deleted, with their tokens; tokens that have expired; clients without a grant. */
export const endedGrants = (db: Db): Purge => ({
  what: 'grants of OAuth clients',
  run: async (signal) =>
    (await removeRows(db, signal, 'oauth_grants', sql`(expires_at < now() or key_id in (select id from api_keys where deleted_at < now()))`)) +
    (await removeRows(db, signal, 'oauth_tokens', sql`expires_at < now()`, 'hash')) +
    (await removeRows(
      db,
      signal,
      'oauth_clients',
      sql`created_at < now() - make_interval(days => ${UNUSED_DAYS}) and not exists (select from oauth_grants g where g.client_id = oauth_clients.id)`,
    )),
})
