// API keys that callers manage: they expire, say who made them, and are told apart from those that settings make.
import { sql, type Kysely } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    alter table api_keys
      add column expires_at timestamptz,              -- null: never
      add column lifetime_seconds double precision,   -- as it was made, before a rotation shortened it; null: no end
      add column created_by text,                     -- the key by which it was made; null: itself
      add column setting text                         -- 'COB_API_KEY' or 'first key', for those that a service's settings make valid`.execute(db)
  // Until now the name said so. Callers may change names, or give these to keys of their own.
  await sql`update api_keys set setting = name where name in ('COB_API_KEY', 'first key') and deployment_id is null`.execute(db)
  // "set null" would turn the key of a deleted project into a key for all projects.
  await sql`alter table api_keys drop constraint api_keys_project_id_fkey`.execute(db)
  await sql`alter table api_keys add foreign key (project_id) references projects (id) on delete cascade`.execute(db)
}
