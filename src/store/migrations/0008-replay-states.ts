// Replays get a state with a log of its moves. Until now it was told by which of their times were set.
import { sql, type Kysely } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`alter table replays add column state text`.execute(db)
  await sql`
    update replays set state = case
      when ready_at is not null then 'ready'
      when finished_at is not null then 'finished'
      when started_at is not null then 'recording'
      else 'starting' end`.execute(db)
  await sql`alter table replays alter column state set not null`.execute(db)
  await sql`
    create table replay_events (
      id bigint generated always as identity primary key,
      replay_id text not null references replays (id) on delete cascade,
      at timestamptz not null default now(),
      state text not null,
      reason text
    )`.execute(db)
  await sql`create index replay_events_replay on replay_events (replay_id, id)`.execute(db)
  await sql`
    insert into replay_events (replay_id, at, state, reason)
    select id, at, state, reason from (
      select id, 1 as step, made_at as at, 'starting' as state, null as reason from replays
      union all select id, 2, started_at, 'recording', null from replays where started_at is not null
      union all select id, 3, finished_at, 'finished', end_reason from replays where finished_at is not null
      union all select id, 4, ready_at, 'ready', null from replays where ready_at is not null) steps
    order by id, step`.execute(db)
  await sql`drop index replays_unfinished`.execute(db)
  await sql`create index replays_unfinished on replays (browser_id) where state <> 'ready'`.execute(db)
}
