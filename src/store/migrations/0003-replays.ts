// Replays: recordings of sessions. They outlive their session, and end with their retention.
import { sql, type Kysely } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table replays (
      id text primary key,
      browser_id text not null references browsers (id) on delete cascade,
      framerate integer not null,
      max_duration_seconds integer,
      record_audio boolean not null,
      object text not null,                -- key of the object with the recording; its film's head lies beside it
      made_at timestamptz not null default now(),
      started_at timestamptz,              -- of the first picture; null while nobody has been told of it
      finished_at timestamptz,             -- of the last picture; null while it is recorded
      end_reason text,
      ready_at timestamptz,                -- when it could be downloaded
      bytes bigint not null default 0,     -- of the object, as far as it belongs to the film
      head_bytes bigint not null default 0,
      activity jsonb not null default '[]' -- how much was going on, for the time line of the player
    )`.execute(db)
  await sql`create index replays_browser on replays (browser_id, started_at)`.execute(db)
  await sql`create index replays_unfinished on replays (browser_id) where ready_at is null`.execute(db)
  await sql`create index replays_finished on replays (finished_at)`.execute(db)
}
