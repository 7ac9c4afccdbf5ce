// The audit log: one row for each authenticated request. It names objects and projects without references, because it outlives them.
import { sql, type Kysely } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table audit_log (
      at timestamptz(3) not null,    -- when the request came, by the clock of the service that got it
      event_id text not null,
      project_id text,               -- the project in effect; null: the request was refused before there was one
      method text not null,
      path text not null,            -- without query and without secrets
      route text not null,
      status smallint not null,      -- 0: not answered yet, or the service died before it stored the result
      duration_ms integer not null,  -- until the answer began
      domain text not null,
      client_ip text not null,
      user_agent text not null,
      auth_strategy text not null,
      user_id text not null,
      -- Searches are for a time, newest first. Rows of the same millisecond are told apart by their ids.
      primary key (at, event_id)
    )
    -- Room in each page for the results, which come half a second later.
    with (fillfactor = 85)`.execute(db)
}
