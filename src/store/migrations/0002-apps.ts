// Apps: the source of a deployment, its versions and runs, the one log that its followers read, and the keys of deployments.
import { sql, type Kysely } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  // No deployment can exist before this migration.
  await sql`drop table deployment_events`.execute(db)
  await sql`
    alter table deployments
      add column host text not null default '',   -- the machine that builds and runs it
      add column archive text,                    -- key of the object with the zip; null for git
      add column secrets bytea,                   -- sealed JSON: values of the variables, the key, a git token
      add column force boolean not null default false,
      add column attempts integer not null default 0,
      add column runner_seq bigint not null default 0, -- the last event of its build that is in app_events
      add column finished_at timestamptz,         -- when it was failed or stopped
      add column deleted_at timestamptz`.execute(db)
  await sql`create index deployments_listed on deployments (created_at desc, id) where deleted_at is null`.execute(db)
  await sql`create index deployments_waiting on deployments (host, created_at) where state in ('queued', 'in_progress')`.execute(db)
  await sql`
    create table app_versions (
      id text primary key,
      app_name text not null,
      version text not null,
      deployment_id text not null references deployments (id) on delete cascade, -- the one that new runs go to
      actions jsonb not null,
      created_at timestamptz not null default now()
    )`.execute(db)
  await sql`create unique index app_versions_name on app_versions (app_name, version)`.execute(db)
  await sql`create index app_versions_deployment on app_versions (deployment_id)`.execute(db)
  await sql`
    create table invocations (
      id text primary key,
      state text not null,
      status_reason text,
      deployment_id text not null references deployments (id) on delete cascade,
      app_name text not null,
      version text not null,
      action_name text not null,
      payload text,                                -- JSON text as it came
      output text,                                 -- JSON text
      is_async boolean not null,
      timeout_seconds integer not null,            -- from started_at on
      caller text not null,                        -- the key it was made with, for repeated requests
      request_hash bytea not null,                 -- of the body, for the same
      runner_id text,                              -- the sandbox that runs it
      runner_seq bigint not null default 0,        -- the last of its events that is in app_events
      started_at timestamptz not null default now(),
      finished_at timestamptz
    )`.execute(db)
  await sql`create index invocations_listed on invocations (started_at desc, id)`.execute(db)
  await sql`create index invocations_live on invocations (deployment_id) where finished_at is null`.execute(db)
  await sql`create index invocations_repeated on invocations (request_hash, started_at) where not is_async`.execute(db)
  // One log per deployment, with each run's events marked: ids of one deployment become visible in order (see events.ts).
  await sql`
    create table app_events (
      id bigint generated always as identity primary key,
      deployment_id text not null references deployments (id) on delete cascade,
      invocation_id text references invocations (id) on delete cascade,
      at timestamptz not null default now(),
      kind text not null,                          -- state | log | app
      state text,                                  -- of kind state
      reason text,
      line text,                                   -- of kind log
      data jsonb                                   -- of kind app
    )`.execute(db)
  await sql`create index app_events_deployment on app_events (deployment_id, id)`.execute(db)
  await sql`create index app_events_invocation on app_events (invocation_id, id) where invocation_id is not null`.execute(db)
  // Events that are not log lines are few among many, so they have an index of their own.
  await sql`create index app_events_marks on app_events (deployment_id, id) where kind <> 'log'`.execute(db)
  await sql`create index app_events_old_logs on app_events (at) where kind = 'log'`.execute(db)
  await sql`alter table api_keys add column deployment_id text references deployments (id) on delete cascade`.execute(db)
  await sql`alter table browsers add column invocation_id text`.execute(db)
  await sql`create index browsers_invocation on browsers (invocation_id) where invocation_id is not null and deleted_at is null`.execute(db)
}
