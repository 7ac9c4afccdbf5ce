// Managed auth: connections keep profiles logged in at sites; flows are the logins and checks that do so.
import { sql, type Kysely } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table auth_connections (
      id text primary key,
      scope text not null,                            -- the service whose browsers log in
      project_id text not null references projects (id) on delete cascade,
      profile_id text not null references profiles (id) on delete cascade,
      domain text not null,                           -- host in ASCII and lower case
      login_url text,
      allowed_domains text[] not null default '{}',
      auto_reauth boolean not null,
      health_checks boolean not null,
      health_check_seconds integer not null,
      record_session boolean not null,
      save_credentials boolean not null,
      credential_id text references credentials (id) on delete set null,         -- a stored credential; or
      provider_id text references credential_providers (id) on delete set null,  -- a provider, and
      provider_path text,                             -- what to read there; null: the item for the domain
      proxy_id text,
      browser jsonb not null,                         -- {stealth, proxy_mode?, region?, telemetry?}: how its browsers are made
      status text not null default 'NEEDS_AUTH',
      checked_at timestamptz,                         -- the last health check that said something, or login
      post_login_url text,
      learned jsonb,                                  -- what the last successful login needed, and how a logged-in page looks: no values
      next_check_at timestamptz,
      checks jsonb not null default '{}',             -- {failures?, inconclusive?}: in a row
      version integer not null default 1,             -- grows with each change by a caller
      created_at timestamptz not null default now(),
      updated_at timestamptz not null default now()
    )`.execute(db)
  await sql`create unique index auth_connections_pair on auth_connections (project_id, profile_id, domain)`.execute(db)
  await sql`create index auth_connections_listed on auth_connections (project_id, created_at desc, id)`.execute(db)
  await sql`create index auth_connections_due on auth_connections (scope, next_check_at) where next_check_at is not null`.execute(db)
  await sql`create index auth_connections_credential on auth_connections (credential_id) where credential_id is not null`.execute(db)
  await sql`create index auth_connections_proxy on auth_connections (proxy_id) where proxy_id is not null`.execute(db)
  await sql`
    create table auth_flows (
      id text primary key,
      connection_id text not null references auth_connections (id) on delete cascade,
      scope text not null,
      type text not null,                             -- login, reauth, health_check
      state text not null,                            -- IN_PROGRESS, SUCCESS, FAILED, EXPIRED, CANCELED; of checks also AUTHENTICATED, NEEDS_AUTH
      step text not null,
      asked jsonb not null default '{}',              -- what this login has of its own: {record_session?, proxy_id?, browser?}
      memory jsonb not null default '{}',             -- what the engine has to know after a restart: no values
      pause jsonb,                                    -- what is asked of a person: {interaction_id, fields, choices, …}: no values
      answer bytea,                                   -- what a person has answered and nobody has taken yet, sealed
      typed bytea,                                    -- what a person has typed in this flow and is kept if it succeeds, sealed
      browser_id text,
      replay_id text,
      telemetry_captured boolean not null default false,
      error_code text,
      error_message text,
      website_error text,
      post_login_url text,
      previous_status text,
      code_hash bytea,                                -- of the code that opens the hosted page, once
      code_used_at timestamptz,
      replica text,                                   -- whose worker has it
      started_at timestamptz not null default now(),
      updated_at timestamptz not null default now(),
      expires_at timestamptz not null,
      input_until timestamptz,                        -- until when the present question may be answered
      finished_at timestamptz
    )`.execute(db)
  // One login at a time for each connection, of all callers.
  await sql`create unique index auth_flows_live on auth_flows (connection_id) where state = 'IN_PROGRESS'`.execute(db)
  await sql`create index auth_flows_listed on auth_flows (connection_id, started_at desc, id)`.execute(db)
  await sql`create index auth_flows_worked on auth_flows (scope) where state = 'IN_PROGRESS'`.execute(db)
  await sql`
    create table auth_flow_events (
      id bigint generated always as identity primary key,
      flow_id text not null references auth_flows (id) on delete cascade,
      at timestamptz not null default now(),
      state text not null,
      reason text
    )`.execute(db)
  await sql`create index auth_flow_events_of on auth_flow_events (flow_id, id)`.execute(db)
  // Browsers of logins and checks: their tools are closed to callers.
  await sql`alter table browsers add column auth_flow_id text`.execute(db)
}
