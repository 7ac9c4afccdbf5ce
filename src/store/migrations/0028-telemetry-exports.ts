// Destinations to which telemetry of sessions is exported, and what each of them has got of which session.
import { sql, type Kysely } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table telemetry_destinations (
      id text primary key,
      name text not null,
      endpoint text not null,
      description text,
      header_names text[] not null,                -- in canonical form
      headers bytea,                               -- with their values, encrypted; null: none
      consecutive_failures integer not null default 0,
      last_error text,
      last_error_at timestamptz,
      last_export_at timestamptz,
      next_attempt_at timestamptz,                 -- not before; null: at once
      created_at timestamptz not null default now(),
      updated_at timestamptz not null default now(),
      deleted_at timestamptz
    )`.execute(db)
  // As names of projects: without case, ordered by bytes.
  await sql`
    create unique index telemetry_destinations_name on telemetry_destinations ((lower(name collate "und-x-icu") collate "C")) where deleted_at is null`.execute(
    db,
  )
  // A time in which a session's telemetry goes to a destination. Of one browser of a pool there may be several, of several callers.
  await sql`
    create table telemetry_exports (
      id bigint generated always as identity primary key,
      session_id text not null,
      destination_id text not null references telemetry_destinations (id) on delete cascade,
      from_ts bigint not null,                     -- events of this time: microseconds since 1970
      until_ts bigint,                             -- and before this one; null: until the session ends
      is_kept boolean not null,                    -- whether they are stored for callers as well
      last_seq bigint not null default 0,          -- events up to this one are delivered, or given up
      finished_at timestamptz                      -- nothing more will come
    )`.execute(db)
  await sql`create index telemetry_exports_session on telemetry_exports (session_id)`.execute(db)
  await sql`create index telemetry_exports_destination on telemetry_exports (destination_id)`.execute(db)
  await sql`create index telemetry_exports_open on telemetry_exports (id) where finished_at is null`.execute(db)
  await sql`create index telemetry_exports_passing on telemetry_exports (session_id) where not is_kept`.execute(db)
  // A trigger, because sessions are claimed, lent, changed and put back by many statements, and each of them has to say in its own transaction where telemetry goes from now on.
  await sql`
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
        values (new.id, wants, case when old.state <> 'running' and new.lease <= 1 then 0 else now_ts end, coalesce((new.options->'telemetry'->>'storage')::boolean, true));
      end if;
      return null;
    end $$`.execute(db)
  await sql`
    create trigger browsers_telemetry_export after update of state, options on browsers for each row
    when (jsonb_exists(old.options, 'telemetry') or jsonb_exists(new.options, 'telemetry'))
    execute function bind_telemetry_export()`.execute(db)
  // The same for pools, of which a destination's deletion asks.
  await sql`
    create function check_pool_destination() returns trigger language plpgsql as $$
    begin
      perform from telemetry_destinations where id = new.resolved->>'destination_id' and deleted_at is null for share;
      if not found then
        raise exception 'the destination is gone' using errcode = 'foreign_key_violation', constraint = 'telemetry_exports_destination';
      end if;
      return new;
    end $$`.execute(db)
  await sql`
    create trigger browser_pools_destination before insert or update of resolved on browser_pools for each row
    when (jsonb_exists(new.resolved, 'destination_id')) execute function check_pool_destination()`.execute(db)
}
