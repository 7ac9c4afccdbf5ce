// The OAuth authorization server: clients that have registered, what people and keys have allowed them, and tokens.
import { sql, type Kysely } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table oauth_clients (
      id text primary key,
      name text not null,
      redirect_uris text[] not null,
      created_at timestamptz not null default now()
    )`.execute(db)
  await sql`create index oauth_clients_created on oauth_clients (created_at)`.execute(db)
  // What was allowed once: a family of tokens, which end together.
  await sql`
    create table oauth_grants (
      id text primary key,
      client_id text not null,         -- without a reference: some clients are built in
      key_id text references api_keys (id) on delete cascade,
      person_id text references people (id) on delete cascade,
      project_id text references projects (id) on delete cascade,   -- null: all that they may use
      looks_only boolean not null default false,
      scope text[] not null,
      created_at timestamptz not null default now(),
      expires_at timestamptz not null, -- of the newest refresh token; before there is one, of the code
      check (num_nonnulls(key_id, person_id) = 1)
    )`.execute(db)
  await sql`create index oauth_grants_key on oauth_grants (key_id, created_at)`.execute(db)
  await sql`create index oauth_grants_person on oauth_grants (person_id, created_at)`.execute(db)
  await sql`create index oauth_grants_client on oauth_grants (client_id)`.execute(db)
  await sql`create index oauth_grants_project on oauth_grants (project_id)`.execute(db)
  await sql`
    create table oauth_tokens (
      hash bytea primary key,          -- SHA-256
      grant_id text not null references oauth_grants (id) on delete cascade,
      kind text not null,              -- code, access, refresh
      redirect_uri text,               -- of a code
      challenge text,
      created_at timestamptz not null default now(),
      expires_at timestamptz not null,
      used_at timestamptz              -- of a code or a refresh token: it is worth nothing any more, and using it again ends the grant
    )`.execute(db)
  await sql`create index oauth_tokens_grant on oauth_tokens (grant_id)`.execute(db)
}
