// Credentials: what logs people's agents in at a site, sealed.
import { sql, type Kysely } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table credentials (
      id text primary key,
      project_id text not null references projects (id),
      name text not null,
      domain text not null,                           -- a host, in ASCII and lower case
      sso_provider text,
      value_keys text[] not null,                     -- the names of the values
      sealed bytea not null,                          -- JSON: the values, and the TOTP secret if there is one
      totp jsonb,                                     -- {algorithm, digits, period}; null: there is no TOTP secret
      created_at timestamptz not null default now(),
      updated_at timestamptz not null default now()
    )`.execute(db)
  // With case, as names of profiles: callers use ids of their own users as names.
  await sql`create unique index credentials_name on credentials (project_id, name)`.execute(db)
  await sql`create index credentials_listed on credentials (project_id, created_at desc, id)`.execute(db)
}
