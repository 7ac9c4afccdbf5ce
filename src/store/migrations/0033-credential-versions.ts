// A credential that a site has refused is not sent again until its values are others.
import { sql, type Kysely } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  // Grows when its values or its TOTP secret become others, not when its key or its name do.
  await sql`alter table credentials add column secrets_version integer not null default 1`.execute(db)
}
