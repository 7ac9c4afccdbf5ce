// What a row belongs to is a scope (what one driver manages), not a host.
import { sql, type Kysely } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  for (const table of ['api_keys', 'browsers', 'deployments']) await sql`alter table ${sql.table(table)} rename column host to scope`.execute(db)
}
