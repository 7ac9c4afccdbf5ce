// The first tables: keys, browsers and deployments. Each table with a lifecycle has a log of its moves.
import { sql, type Kysely } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table api_keys (
      id text primary key,
      name text not null,
      hash bytea not null unique,          -- SHA-256 of the key; the key itself is kept nowhere
      masked text not null,
      created_at timestamptz not null default now(),
      deleted_at timestamptz
    )`.execute(db)
  await sql`
    create table browsers (
      id text primary key,
      state text not null,
      host text not null,                  -- the machine whose driver runs the instance
      warm_kind text,                      -- what the instance was booted as; a create may claim it only for the same kind
      name text,
      tags jsonb not null default '{}',
      options jsonb not null default '{}', -- what the caller asked for: headless, viewport, ...
      endpoint jsonb,                      -- where the agent answers
      timeout_seconds integer not null default 60,
      made_at timestamptz not null default now(),
      created_at timestamptz,              -- when a caller got it; null while nobody owns it
      last_active_at timestamptz,
      deleted_at timestamptz,
      end_reason text
    )`.execute(db)
  await sql`create unique index browsers_name on browsers (host, lower(name)) where name is not null and deleted_at is null`.execute(db)
  await sql`create index browsers_warm on browsers (host, warm_kind, made_at) where state = 'warm'`.execute(db)
  await sql`create index browsers_listed on browsers (created_at desc, id) where created_at is not null`.execute(db)
  await sql`create index browsers_live on browsers (host) where deleted_at is null`.execute(db)
  await sql`
    create table browser_events (
      id bigint generated always as identity primary key,
      browser_id text not null references browsers (id) on delete cascade,
      at timestamptz not null default now(),
      state text not null,
      reason text
    )`.execute(db)
  await sql`create index browser_events_browser on browser_events (browser_id, id)`.execute(db)
  await sql`
    create table deployments (
      id text primary key,
      state text not null,
      status_reason text,
      app_name text,
      app_version text,
      region text not null,
      entrypoint_rel_path text,
      env_keys jsonb not null default '[]',
      source_type text,
      source_url text,
      source_ref text,
      source_path text,
      source_checksum text,
      created_at timestamptz not null default now(),
      updated_at timestamptz not null default now()
    )`.execute(db)
  await sql`
    create table deployment_events (
      id bigint generated always as identity primary key,
      deployment_id text not null references deployments (id) on delete cascade,
      at timestamptz not null default now(),
      state text not null,
      reason text
    )`.execute(db)
  await sql`create index deployment_events_deployment on deployment_events (deployment_id, id)`.execute(db)
}
