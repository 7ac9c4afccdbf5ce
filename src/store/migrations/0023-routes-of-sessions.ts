// Live sessions with proxies for certain hosts: which of them use a proxy.
import { sql, type Kysely } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`create index browsers_routes on browsers (id) where deleted_at is null and options->'network' ? 'proxy_routes'`.execute(db)
}
