// Indexes by which what ended long ago is found.
import { sql, type Kysely } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`create index browsers_ended on browsers (host, deleted_at) where deleted_at is not null`.execute(db)
  await sql`create index invocations_ended on invocations (finished_at) where finished_at is not null`.execute(db)
}
