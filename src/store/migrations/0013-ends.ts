// A session is deleted for its callers when its end begins. Its row is closed (state 'deleted') when nothing is left of it, which may be later.
import { sql, type Kysely } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`drop index browsers_live`.execute(db)
  await sql`create index browsers_open on browsers (scope) where state <> 'deleted'`.execute(db)
  // Until now, these had no such time before they were closed.
  await sql`update browsers set deleted_at = now() where state in ('stopping', 'failed') and deleted_at is null`.execute(db)
}
