// Managed auth: addresses after a login that have a value of it in them.
import { sql, type Kysely } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  // The whole address, sealed. post_login_url is without the value then; health checks need the whole one.
  await sql`alter table auth_flows add column landing bytea`.execute(db)
  await sql`alter table auth_connections add column landing bytea`.execute(db)
}
