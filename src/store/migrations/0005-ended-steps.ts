// Which steps of a session's end are done, so that the next service continues where this one was killed.
import { sql, type Kysely } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`alter table browsers add column ended_steps text[] not null default '{}' -- names, in the order in which they were done`.execute(db)
}
