// People: who they are, what they may do in which project, and the sessions of their web browsers. A session may also be that of an API key.
import { sql, type Kysely } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table people (
      id text primary key,
      issuer text,                     -- of the identity provider, and who it says this is; null: invited, and has not signed in yet
      subject text,
      email text,                      -- as the provider has it; of an invitation, the address that has to be verified
      name text,
      invited_by text,                 -- the key or person; null: came by the rules of the settings
      created_at timestamptz not null default now(),
      signed_in_at timestamptz
    )`.execute(db)
  await sql`create unique index people_subject on people (issuer, subject) where subject is not null`.execute(db)
  // Two invitations of one address would leave open which one a sign-in means.
  await sql`create unique index people_invited on people (lower(email)) where subject is null`.execute(db)
  await sql`
    create table memberships (
      person_id text not null references people (id) on delete cascade,
      project_id text references projects (id) on delete cascade,   -- null: all projects
      role text not null,
      by_settings boolean not null default false,                   -- given by a claim or a list of the settings, and taken away by them
      created_at timestamptz not null default now(),
      unique nulls not distinct (person_id, project_id)
    )`.execute(db)
  await sql`create index memberships_project on memberships (project_id)`.execute(db)
  await sql`
    create table web_sessions (
      id text primary key,
      hash bytea not null unique,      -- SHA-256 of the cookie
      key_id text references api_keys (id) on delete cascade,
      person_id text references people (id) on delete cascade,
      created_at timestamptz not null default now(),
      expires_at timestamptz not null,
      check (num_nonnulls(key_id, person_id) = 1)
    )`.execute(db)
  await sql`create index web_sessions_key on web_sessions (key_id, created_at)`.execute(db)
  await sql`create index web_sessions_person on web_sessions (person_id, created_at)`.execute(db)
  // The log outlives the people it names.
  await sql`alter table audit_log add column email text`.execute(db)
}
