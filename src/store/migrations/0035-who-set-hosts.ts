// Managed auth: whether the caller who chose a connection's credential and hosts has a right to all items of the organization's providers.
import { sql, type Kysely } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  // With a key of one project: items are typed only where they are meant for. Nobody knows it of connections that were made before.
  await sql`alter table auth_connections add column by_project_key boolean not null default true`.execute(db)
}
