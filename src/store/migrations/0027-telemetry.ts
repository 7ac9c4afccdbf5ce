// Telemetry of sessions, as it is kept: runs of events, compressed.
import { sql, type Kysely } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table telemetry_segments (
      session_id text not null,
      first_seq bigint not null,
      last_seq bigint not null,
      first_ts bigint not null,   -- microseconds since 1970
      last_ts bigint not null,
      events integer not null,
      types bigint not null,      -- which types of events there are, one bit each
      bytes integer not null,     -- compressed
      data bytea,                 -- JSON lines, compressed; null: they are in the object
      scope text,                 -- null until it is merged with others; then that of the session, and of the object
      object text,
      created_at timestamptz not null default now(),
      primary key (session_id, first_seq)
    )`.execute(db)
  // Asked for every second by each of several replicas; options may have megabytes.
  await sql`
    create index browsers_telemetry on browsers (scope, replica) include (id, state) where state <> 'deleted' and jsonb_exists(options, 'telemetry')`.execute(
    db,
  )
  // How far sessions are stored, and whether there is more for an export, is asked for every second: without reading the rows, which have the events in them.
  await sql`create index telemetry_segments_reached on telemetry_segments (session_id, last_seq) include (first_ts, last_ts, events, bytes)`.execute(db)
  await sql`create index telemetry_segments_age on telemetry_segments (last_ts)`.execute(db)
  await sql`create index telemetry_segments_fresh on telemetry_segments (session_id) where scope is null and data is not null`.execute(db)
}
