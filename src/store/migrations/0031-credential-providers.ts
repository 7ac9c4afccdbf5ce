// Credential providers: password stores outside this service, with the tokens that open them.
import { sql, type Kysely } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table credential_providers (
      id text primary key,
      name text not null,
      provider_type text not null,
      token bytea not null,                        -- encrypted
      cache_ttl_seconds integer not null,
      enabled boolean not null default true,
      priority integer not null default 0,         -- lower ones are asked first
      version integer not null default 1,          -- grows with each change: an item list of an earlier version is not used any more
      created_at timestamptz not null default now(),
      updated_at timestamptz not null default now()
    )`.execute(db)
  // As names of projects: without case, ordered by bytes.
  await sql`create unique index credential_providers_name on credential_providers ((lower(name collate "und-x-icu") collate "C"))`.execute(db)
}
