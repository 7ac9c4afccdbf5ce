// Deleting a project looks for all its rows, also those that no list shows. Without an index for these it read the whole table.
import { sql, type Kysely } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`drop index browsers_listed`.execute(db)
  await sql`create index browsers_listed on browsers (project_id, created_at desc, id) where project_id is not null`.execute(db)
}
