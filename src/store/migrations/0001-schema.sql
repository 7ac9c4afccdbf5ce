-- All tables of the first release, by the wings of src/control. Each later migration is a file beside this one.
--
-- `scope` is what one driver manages: rows of another scope belong to another service on the same database. `replica` is the process that watches a row.
-- A table `<things>_events` has the moves of a lifecycle. `sealed` and "encrypted" mean: with a key that is not in the database.
-- Names are compared without case as `lower(name collate "und-x-icu") collate "C"`: by the rules of ICU in every alphabet, and ordered by bytes, because the
-- order of ICU changes with its version, which would break an index.

-- service ---------------------------------------------------------------------------------------------------------------------------------------------------

-- Which replica has a duty, and until when. The lease that is named after a replica says that it lives.
create table leases (
  scope text not null,
  duty text not null,
  replica text not null,
  until timestamptz not null,
  primary key (scope, duty)
);

-- access ----------------------------------------------------------------------------------------------------------------------------------------------------

-- Every object of callers belongs to a project. Only an empty one can be deleted, and the references refuse what is made meanwhile. Where they say
-- "set null", ended objects of a deleted project stay until they are purged, and nobody sees them.
create table projects (
  id text primary key,
  name text not null,
  status text not null default 'active',          -- active | archived
  max_concurrent_sessions integer check (max_concurrent_sessions > 0),        -- null: no limit besides that of the service
  max_concurrent_invocations integer check (max_concurrent_invocations > 0),
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
create unique index projects_name on projects ((lower(name collate "und-x-icu") collate "C"));
-- The same id everywhere, so that it is known without a query.
insert into projects (id, name) values ('defaultproject0000000000', 'Default');

-- What applies to projects that have no limit of their own. One row.
create table org_limits (
  only_row boolean primary key default true check (only_row),
  default_project_max_concurrent_sessions integer check (default_project_max_concurrent_sessions > 0)
);
insert into org_limits default values;

create table api_keys (
  id text primary key,
  project_id text references projects (id) on delete cascade,  -- the only one that it may be used for; null: all
  deployment_id text,                             -- whose runs use it
  scope text not null default '',                 -- of the service whose settings name it, so that another one does not revoke it; empty: none
  setting text,                                   -- COB_API_KEY or "first key", for those that a service's settings make valid
  name text not null,
  hash bytea not null,                            -- SHA-256 of the key; the key itself is kept nowhere
  masked text not null,
  created_by text,                                -- the key by which it was made; null: the service made it
  created_at timestamptz not null default now(),
  expires_at timestamptz,                         -- null: never
  lifetime_seconds double precision,              -- as it was made, before a rotation shortened it; null: no end
  deleted_at timestamptz
);
create unique index api_keys_hash on api_keys (hash, scope);
create index api_keys_project on api_keys (project_id);

-- One row for each authenticated request. It names objects, projects and people without references, because it outlives them.
create table audit_log (
  at timestamptz(3) not null,                     -- when the request came, by the clock of the service that got it
  event_id text not null,
  project_id text,                                -- the project in effect; null: the request was refused before there was one
  method text not null,
  path text not null,                             -- without query and without secrets
  route text not null,
  status smallint not null,                       -- 0: not answered yet, or the service died before it stored the result
  duration_ms integer not null,                   -- until the answer began
  domain text not null,
  client_ip text not null,
  user_agent text not null,
  auth_strategy text not null,
  user_id text not null,
  email text,
  -- Searches are for a time, newest first. Rows of the same millisecond are told apart by their ids.
  primary key (at, event_id)
)
-- Room in each page for the results, which come half a second later.
with (fillfactor = 85);

create table audit_log_destinations (
  id text primary key,
  bucket text not null,
  prefix text not null,                           -- of all keys; empty: none
  region text not null,
  role_arn text not null,                         -- empty: the credentials of the service itself
  kms_key_id text,
  external_id text not null,                      -- shown when the role is assumed
  status text not null default 'paused',          -- paused | active
  active tstzmultirange not null default '{}',    -- when it was active: entries of requests that came then are exported
  version integer not null default 0,             -- counts the changes by callers
  consecutive_failures integer not null default 0,
  last_error text,
  last_error_at timestamptz,
  last_exported_cursor text,                      -- the last entry of the last object
  last_success_at timestamptz,
  next_attempt_at timestamptz,                    -- not before; null: in the next round
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  deleted_at timestamptz
);

-- What a destination has not got yet. Written in the statement that stores an entry, removed when an object has it. No references: storing the log must
-- not wait for a destination.
create table audit_log_undelivered (
  destination_id text not null,
  at timestamptz(3) not null,
  event_id text not null,
  primary key (destination_id, at, event_id)
);

create table people (
  id text primary key,
  issuer text,                                    -- the identity provider, and who it says this is; null: invited, and has not signed in yet
  subject text,
  email text,                                     -- as the provider has it; of an invitation, the address that has to be verified
  name text,
  invited_by text,                                -- the key or person; null: came by the rules of the settings
  created_at timestamptz not null default now(),
  signed_in_at timestamptz
);
create unique index people_subject on people (issuer, subject) where subject is not null;
-- Two invitations of one address would leave open which one a sign-in means.
create unique index people_invited on people (lower(email)) where subject is null;

create table memberships (
  person_id text not null references people (id) on delete cascade,
  project_id text references projects (id) on delete cascade,  -- null: all projects
  role text not null,
  by_settings boolean not null default false,     -- given by a claim or a list of the settings, and taken away by them
  created_at timestamptz not null default now(),
  unique nulls not distinct (person_id, project_id)
);
create index memberships_project on memberships (project_id);

-- A login to the dashboard in a web browser: of a person, or with an API key.
create table web_sessions (
  id text primary key,
  hash bytea not null unique,                     -- SHA-256 of the cookie
  key_id text references api_keys (id) on delete cascade,
  person_id text references people (id) on delete cascade,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  check (num_nonnulls(key_id, person_id) = 1)
);
create index web_sessions_key on web_sessions (key_id, created_at);
create index web_sessions_person on web_sessions (person_id, created_at);

create table oauth_clients (
  id text primary key,
  name text not null,
  redirect_uris text[] not null,
  created_at timestamptz not null default now()
);
create index oauth_clients_created on oauth_clients (created_at);

-- What a person or a key has allowed a client once: a family of tokens, which end together.
create table oauth_grants (
  id text primary key,
  client_id text not null,                        -- without a reference: some clients are built in
  key_id text references api_keys (id) on delete cascade,
  person_id text references people (id) on delete cascade,
  project_id text references projects (id) on delete cascade,  -- null: all that they may use
  looks_only boolean not null default false,
  scope text[] not null,                          -- of OAuth
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,                -- of the newest refresh token; before there is one, of the code
  check (num_nonnulls(key_id, person_id) = 1)
);
create index oauth_grants_key on oauth_grants (key_id, created_at);
create index oauth_grants_person on oauth_grants (person_id, created_at);
create index oauth_grants_client on oauth_grants (client_id);
create index oauth_grants_project on oauth_grants (project_id);

create table oauth_tokens (
  hash bytea primary key,                         -- SHA-256
  grant_id text not null references oauth_grants (id) on delete cascade,
  kind text not null,                             -- code | access | refresh
  redirect_uri text,                              -- of a code
  challenge text,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  used_at timestamptz                             -- of a code or a refresh token: it is worth nothing any more, and using it again ends the grant
);
create index oauth_tokens_grant on oauth_tokens (grant_id);

-- sessions --------------------------------------------------------------------------------------------------------------------------------------------------

-- A browser, in any state: warm, with a caller, ended.
create table browsers (
  id text primary key,
  state text not null,
  scope text not null,
  replica text,
  project_id text references projects (id) on delete set null,  -- null: nobody has it yet
  warm_kind text,                                 -- what the instance was booted as; a create may claim it only for the same kind
  name text,
  tags jsonb not null default '{}',
  options jsonb not null default '{}',            -- what the caller asked for: headless, viewport, ...
  endpoint jsonb,                                 -- where the agent answers
  timeout_seconds integer not null default 60,
  invocation_id text,                             -- the run that made it
  auth_flow_id text,                              -- the login or check that made it: its tools are closed to callers
  profile_id text,
  profile_version text,                           -- the version of its profile that it has loaded
  profile_save boolean not null default false,    -- its profile is saved when it ends
  profile_base bigint,                            -- the number of the newest version when it loaded the profile: later ones are other sessions'
  profile_end jsonb,                              -- how the save ended: {saved, version_id?, message}
  pool_id text,
  pool_generation integer,                        -- the pool's configuration that it was made with
  pool_baseline jsonb,                            -- {options, profile_id}: what it goes back to when a caller gives it back
  lease integer not null default 0,               -- how many times callers have acquired it from its pool; its addresses name this number and work until the release
  made_at timestamptz not null default now(),
  created_at timestamptz,                         -- when a caller got it; null while nobody owns it
  last_active_at timestamptz,
  deleted_at timestamptz,                         -- when its end began; it is closed (state 'deleted') when nothing is left of it, which may be later
  end_reason text,
  ended_steps text[] not null default '{}'        -- steps of its end that are done, in their order, so that the next service continues there
);
create unique index browsers_name on browsers (scope, project_id, lower(name)) where name is not null and deleted_at is null;
create index browsers_warm on browsers (scope, warm_kind, made_at) where state = 'warm';
-- Deleting a project looks for all its rows, also those that no list shows.
create index browsers_listed on browsers (project_id, created_at desc, id) where project_id is not null;
create index browsers_open on browsers (scope) where state <> 'deleted';
create index browsers_ended on browsers (scope, deleted_at) where deleted_at is not null;
create index browsers_invocation on browsers (invocation_id) where invocation_id is not null and deleted_at is null;
create index browsers_profile on browsers (profile_id) where profile_id is not null;
create index browsers_pool on browsers (pool_id, state) where pool_id is not null;
create index browsers_proxy on browsers ((options->>'proxy_id')) where options ? 'proxy_id';
-- Live sessions that use proxies for certain hosts.
create index browsers_routes on browsers (id) where deleted_at is null and options->'network' ? 'proxy_routes';
-- Asked for every second by each of several replicas; options may have megabytes.
create index browsers_telemetry on browsers (scope, replica) include (id, state) where state <> 'deleted' and jsonb_exists(options, 'telemetry');

create table browser_events (
  id bigint generated always as identity primary key,
  browser_id text not null references browsers (id) on delete cascade,
  at timestamptz not null default now(),
  state text not null,
  reason text
);
create index browser_events_browser on browser_events (browser_id, id);

-- Browsers of one configuration that are kept ready for the callers of a project.
create table browser_pools (
  id text primary key,
  scope text not null,
  project_id text references projects (id) on delete set null,
  name text,
  size integer not null,
  config jsonb not null,                          -- as its callers have given it, without size, name and policies
  chrome_policy jsonb,
  resolved jsonb not null,                        -- {extension_ids, profile_id?, destination_id?}: what its configuration named when it was given
  problem text,                                   -- why its last browser could not be made; null when the last one was
  generation integer not null default 1,          -- grows when the configuration changes
  oldest integer not null default 1,              -- browsers of an earlier generation that nobody has had are ended
  is_forced boolean not null default false,       -- it was deleted with the browsers that its callers had
  discarded integer not null default 0,           -- how many idle browsers it has had ended to be made anew, so far
  created_at timestamptz not null default now(),
  deleted_at timestamptz
);
create unique index browser_pools_name on browser_pools (scope, project_id, lower(name)) where name is not null and deleted_at is null;
create index browser_pools_listed on browser_pools (project_id, created_at desc, id) where project_id is not null;
create index browser_pools_kept on browser_pools (scope) where deleted_at is null;

-- What a browser keeps from one session to the next, in versions.
create table profiles (
  id text primary key,
  project_id text references projects (id) on delete set null,
  name text,
  version_id text,                                -- the version that sessions load; null: nothing has been saved yet
  created_at timestamptz not null default now(),
  updated_at timestamptz,                         -- null: neither saved nor renamed yet
  last_used_at timestamptz,
  deleted_at timestamptz
);
-- With case: callers use ids of their own users as names, and two that differ in case only must not share a browser's cookies.
create unique index profiles_name on profiles (project_id, name) where deleted_at is null;
create index profiles_listed on profiles (project_id, created_at desc, id) where project_id is not null;

create table profile_versions (
  id text primary key,
  profile_id text not null references profiles (id) on delete cascade,
  number bigint generated always as identity,     -- later versions have larger ones
  scope text not null,                            -- the service in whose object store the object is, when objects are files
  object text not null,
  bytes bigint not null,
  sha256 text not null,
  chromium text,                                  -- the full version of the Chromium that wrote it, if its agent said so
  session_id text not null,
  is_whole boolean not null,                      -- false: Chromium had not been closed properly, so the last seconds may be missing
  created_at timestamptz not null default now()
);
create index profile_versions_of on profile_versions (profile_id, number desc);

-- An extension that callers have uploaded; its archive is an object.
create table extensions (
  id text primary key,
  project_id text not null references projects (id),
  scope text not null,                            -- whose object store has the archive, when objects are files
  name text,
  object text not null,
  size_bytes integer not null,
  checksum text not null,                         -- SHA-256 in hex
  by_policy boolean not null,                     -- it has update.xml and a .crx
  created_at timestamptz not null default now(),
  last_used_at timestamptz
);
create unique index extensions_name on extensions (project_id, (lower(name collate "und-x-icu") collate "C")) where name is not null;
create index extensions_listed on extensions (project_id, created_at desc, id);

-- How sessions reach the internet when not directly.
create table proxies (
  id text primary key,
  project_id text references projects (id) on delete set null,
  name text,                                      -- not unique
  type text not null,                             -- custom, or datacenter | isp | residential | mobile: the operator's own server
  protocol text not null,                         -- http | https | socks5
  config jsonb not null,                          -- what callers see of it
  secrets bytea,                                  -- sealed JSON: user name, password, certificates; null when it has none, or when a deleted one is out of use
  bypass_hosts text[] not null,
  status text,                                    -- available | unavailable, as the last check without a url of its own said
  ip_address text,                                -- as that check saw it
  last_checked timestamptz,
  created_at timestamptz not null default now(),
  deleted_at timestamptz
);
create index proxies_listed on proxies (project_id, created_at desc, id) where project_id is not null;
create index proxies_deleted on proxies (deleted_at) where deleted_at is not null;

-- A recording of a session. It outlives its session, and ends with its retention.
create table replays (
  id text primary key,
  state text not null,
  browser_id text not null references browsers (id) on delete cascade,
  framerate integer not null,
  max_duration_seconds integer,
  record_audio boolean not null,
  object text not null,                           -- key of the object with the recording; its head is an object beside it
  bytes bigint not null default 0,                -- of the object, as far as it belongs to the video
  head_bytes bigint not null default 0,
  activity jsonb not null default '[]',           -- how much was going on, for the time line of the player
  made_at timestamptz not null default now(),
  started_at timestamptz,                         -- of the first picture; null while nobody has been told of it
  clock_started_at bigint,                        -- the same by the clock of the session's events, in microseconds since 1970
  finished_at timestamptz,                        -- of the last picture; null while it is recorded
  end_reason text,
  ready_at timestamptz                            -- when it could be downloaded
);
create index replays_browser on replays (browser_id, started_at);
create index replays_unfinished on replays (browser_id) where state <> 'ready';
create index replays_finished on replays (finished_at);

create table replay_events (
  id bigint generated always as identity primary key,
  replay_id text not null references replays (id) on delete cascade,
  at timestamptz not null default now(),
  state text not null,
  reason text
);
create index replay_events_replay on replay_events (replay_id, id);

-- A run of events of a session, compressed.
create table telemetry_segments (
  session_id text not null,
  first_seq bigint not null,
  last_seq bigint not null,
  first_ts bigint not null,                       -- microseconds since 1970
  last_ts bigint not null,
  events integer not null,
  types bigint not null,                          -- which types of events there are, one bit each
  bytes integer not null,                         -- compressed
  data bytea,                                     -- JSON lines, compressed; null: they are in the object
  scope text,                                     -- null until it is merged with others; then that of the session, and of the object
  object text,
  created_at timestamptz not null default now(),
  primary key (session_id, first_seq)
);
-- How far sessions are stored, and whether there is more for an export, is asked for every second: without reading the rows, which have the events in them.
create index telemetry_segments_reached on telemetry_segments (session_id, last_seq) include (first_ts, last_ts, events, bytes);
create index telemetry_segments_age on telemetry_segments (last_ts);
create index telemetry_segments_fresh on telemetry_segments (session_id) where scope is null and data is not null;

create table telemetry_destinations (
  id text primary key,
  name text not null,
  endpoint text not null,
  description text,
  header_names text[] not null,                   -- in canonical form
  headers bytea,                                  -- with their values, encrypted; null: none
  consecutive_failures integer not null default 0,
  last_error text,
  last_error_at timestamptz,
  last_export_at timestamptz,
  next_attempt_at timestamptz,                    -- not before; null: at once
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  deleted_at timestamptz
);
create unique index telemetry_destinations_name on telemetry_destinations ((lower(name collate "und-x-icu") collate "C")) where deleted_at is null;

-- A time in which a session's telemetry goes to a destination. Of one browser of a pool there may be several, of several callers.
create table telemetry_exports (
  id bigint generated always as identity primary key,
  session_id text not null,
  destination_id text not null references telemetry_destinations (id) on delete cascade,
  from_ts bigint not null,                        -- events of this time: microseconds since 1970
  until_ts bigint,                                -- and before this one; null: until the session ends
  is_kept boolean not null,                       -- whether they are stored for callers as well
  last_seq bigint not null default 0,             -- events up to this one are delivered, or given up
  finished_at timestamptz                         -- nothing more will come
);
create index telemetry_exports_session on telemetry_exports (session_id);
create index telemetry_exports_destination on telemetry_exports (destination_id);
create index telemetry_exports_open on telemetry_exports (id) where finished_at is null;
create index telemetry_exports_passing on telemetry_exports (session_id) where not is_kept;

-- A trigger, because sessions are claimed, lent, changed and put back by many statements, and each of them has to say in its own transaction where telemetry
-- goes from now on.
create function bind_telemetry_export() returns trigger language plpgsql as $$
declare
  had text := old.options->'telemetry'->>'destination';
  wants text := new.options->'telemetry'->>'destination';
  now_ts bigint := (extract(epoch from clock_timestamp()) * 1000000)::bigint;
  seen_ts bigint;
begin
  if new.state = 'running' and old.state = 'running' and had is not distinct from wants then
    return null;
  end if;
  -- The clock of events is the session's own. When it is ahead of this one, what is stored already is of the time before.
  select max(last_ts) + 1 into seen_ts from telemetry_segments where session_id = new.id;
  now_ts := greatest(now_ts, seen_ts);
  if new.state = 'running' or (old.state = 'releasing' and new.state = 'warm') then
    update telemetry_exports set until_ts = now_ts where session_id = new.id and until_ts is null;
  end if;
  if new.state = 'running' and wants is not null then
    -- With its lock: a deletion of it sees this session, or came before.
    perform from telemetry_destinations where id = wants and deleted_at is null for share;
    if not found then
      raise exception 'the destination is gone' using errcode = 'foreign_key_violation', constraint = 'telemetry_exports_destination';
    end if;
    insert into telemetry_exports (session_id, destination_id, from_ts, is_kept)
    -- Nobody has had the browser before.
    values (new.id, wants, case when old.state <> 'running' and new.lease <= 1 then 0 else now_ts end,
      coalesce((new.options->'telemetry'->>'storage')::boolean, true));
  end if;
  return null;
end $$;
create trigger browsers_telemetry_export after update of state, options on browsers for each row
  when (jsonb_exists(old.options, 'telemetry') or jsonb_exists(new.options, 'telemetry')) execute function bind_telemetry_export();

-- The same for pools, of which a destination's deletion asks.
create function check_pool_destination() returns trigger language plpgsql as $$
begin
  perform from telemetry_destinations where id = new.resolved->>'destination_id' and deleted_at is null for share;
  if not found then
    raise exception 'the destination is gone' using errcode = 'foreign_key_violation', constraint = 'telemetry_exports_destination';
  end if;
  return new;
end $$;
create trigger browser_pools_destination before insert or update of resolved on browser_pools for each row
  when (jsonb_exists(new.resolved, 'destination_id')) execute function check_pool_destination();

-- apps ------------------------------------------------------------------------------------------------------------------------------------------------------

create table deployments (
  id text primary key,
  scope text not null default '',
  project_id text references projects (id) on delete set null,
  state text not null,
  status_reason text,
  app_name text,
  app_version text,
  region text not null,
  entrypoint_rel_path text,
  env_keys jsonb not null default '[]',
  secrets bytea,                                  -- sealed JSON: values of the variables, the key, a git token
  force boolean not null default false,
  archive text,                                   -- key of the object with the zip; null for git
  source_type text,
  source_url text,
  source_ref text,
  source_path text,
  source_checksum text,
  code_key text,                                  -- of the object with the built code; null before it is built, and when it has ended
  code_bytes bigint,
  attempts integer not null default 0,
  sandbox_id text,                                -- of the last attempt: two replicas that both begin a build do not end each other's
  log_bytes bigint not null default 0,            -- of its lines in app_events, with 100 for each: bounded without counting
  runner_seq bigint not null default 0,           -- the last event of its build that is in app_events
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  finished_at timestamptz,                        -- when it was failed or stopped
  deletion text not null default 'kept',
  deleted_at timestamptz
);
create index deployments_project on deployments (project_id);
create index deployments_listed on deployments (created_at desc, id) where deletion = 'kept';
create index deployments_waiting on deployments (scope, created_at) where state in ('queued', 'in_progress');
alter table api_keys add foreign key (deployment_id) references deployments (id) on delete cascade;

create table app_versions (
  id text primary key,
  project_id text references projects (id) on delete set null,
  app_name text not null,
  version text not null,
  deployment_id text not null references deployments (id) on delete cascade,  -- the one that new runs go to
  actions jsonb not null,
  created_at timestamptz not null default now()
);
create unique index app_versions_name on app_versions (project_id, app_name, version);
create index app_versions_deployment on app_versions (deployment_id);

-- A run of an action of an app.
create table invocations (
  id text primary key,
  project_id text references projects (id) on delete set null,
  replica text,
  state text not null,
  status_reason text,
  deployment_id text not null references deployments (id) on delete cascade,
  app_name text not null,
  version text not null,
  action_name text not null,
  payload text,                                   -- JSON text as it came
  output text,                                    -- JSON text
  is_async boolean not null,
  timeout_seconds integer not null,               -- from started_at on
  caller text not null,                           -- the key it was made with, for repeated requests
  request_hash bytea not null,                    -- of the body, for the same
  runner_id text,                                 -- the sandbox that runs it
  runner_seq bigint not null default 0,           -- the last of its events that is in app_events
  started_at timestamptz not null default now(),
  finished_at timestamptz
);
create index invocations_listed on invocations (project_id, started_at desc, id);
create index invocations_live on invocations (deployment_id) where finished_at is null;
create index invocations_ended on invocations (finished_at) where finished_at is not null;
create index invocations_repeated on invocations (request_hash, started_at) where not is_async;

-- One log for each deployment, with the events of its runs marked: ids of one deployment become visible in order (see events.ts).
create table app_events (
  id bigint generated always as identity primary key,
  deployment_id text not null references deployments (id) on delete cascade,
  invocation_id text references invocations (id) on delete cascade,
  at timestamptz not null default now(),
  kind text not null,                             -- state | deletion | log | app
  state text,                                     -- of kinds state and deletion
  reason text,
  line text,                                      -- of kind log
  data jsonb                                      -- of kind app
);
create index app_events_deployment on app_events (deployment_id, id);
create index app_events_invocation on app_events (invocation_id, id) where invocation_id is not null;
-- Events that are not log lines are few among many.
create index app_events_marks on app_events (deployment_id, id) where kind <> 'log';
create index app_events_old_logs on app_events (at) where kind = 'log';

-- logins ----------------------------------------------------------------------------------------------------------------------------------------------------

-- What logs in at a site.
create table credentials (
  id text primary key,
  project_id text not null references projects (id),
  name text not null,
  domain text not null,                           -- a host, in ASCII and lower case
  sso_provider text,
  value_keys text[] not null,                     -- the names of the values
  sealed bytea not null,                          -- JSON: the values, and the TOTP secret if there is one
  secrets_version integer not null default 1,     -- grows when these become others, not when key or name do: what a site has refused is not sent again
  totp jsonb,                                     -- {algorithm, digits, period}; null: there is no TOTP secret
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
-- With case, as names of profiles.
create unique index credentials_name on credentials (project_id, name);
create index credentials_listed on credentials (project_id, created_at desc, id);

-- A password store outside this service, with the token that opens it.
create table credential_providers (
  id text primary key,
  name text not null,
  provider_type text not null,
  token bytea not null,                           -- encrypted
  cache_ttl_seconds integer not null,
  enabled boolean not null default true,
  priority integer not null default 0,            -- lower ones are asked first
  version integer not null default 1,             -- grows with each change: an item list of an earlier version is not used any more
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
create unique index credential_providers_name on credential_providers ((lower(name collate "und-x-icu") collate "C"));

-- Keeps a profile logged in at a site.
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
  by_project_key boolean not null default true,   -- credential and hosts were chosen with a key of one project: an item is typed only at the hosts that it names
  proxy_id text,
  browser jsonb not null,                         -- {stealth, proxy_mode?, region?, telemetry?}: how its browsers are made
  status text not null default 'NEEDS_AUTH',
  checked_at timestamptz,                         -- the last health check that said something, or login
  post_login_url text,                            -- without values of the login
  landing bytea,                                  -- the whole address, sealed, when it has such a value
  learned jsonb,                                  -- what the last successful login needed, and how a logged-in page looks: no values
  next_check_at timestamptz,
  checks jsonb not null default '{}',             -- {failures?, inconclusive?}: in a row
  version integer not null default 1,             -- grows with each change by a caller
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
create unique index auth_connections_pair on auth_connections (project_id, profile_id, domain);
create index auth_connections_listed on auth_connections (project_id, created_at desc, id);
create index auth_connections_due on auth_connections (scope, next_check_at) where next_check_at is not null;
create index auth_connections_credential on auth_connections (credential_id) where credential_id is not null;
create index auth_connections_proxy on auth_connections (proxy_id) where proxy_id is not null;

-- A login or a check of a connection.
create table auth_flows (
  id text primary key,
  connection_id text not null references auth_connections (id) on delete cascade,
  scope text not null,
  replica text,
  type text not null,                             -- login | reauth | health_check
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
  post_login_url text,                            -- as that of the connection
  landing bytea,
  previous_status text,
  code_hash bytea,                                -- of the code that opens the hosted page, once
  code_used_at timestamptz,
  started_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  expires_at timestamptz not null,
  input_until timestamptz,                        -- until when the present question may be answered
  finished_at timestamptz
);
-- One login at a time for each connection, of all callers.
create unique index auth_flows_live on auth_flows (connection_id) where state = 'IN_PROGRESS';
create index auth_flows_listed on auth_flows (connection_id, started_at desc, id);
create index auth_flows_worked on auth_flows (scope) where state = 'IN_PROGRESS';

create table auth_flow_events (
  id bigint generated always as identity primary key,
  flow_id text not null references auth_flows (id) on delete cascade,
  at timestamptz not null default now(),
  state text not null,
  reason text
);
create index auth_flow_events_of on auth_flow_events (flow_id, id);
