// When a replay begins, on the clock by which its session's events are told.
import { sql, type Kysely } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  // Microseconds since 1970; null: its agent did not tell it.
  await sql`alter table replays add column clock_started_at bigint`.execute(db)
}
