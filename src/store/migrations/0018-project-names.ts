// Names of projects are unique without case in every alphabet, by the rules of ICU. Until now only the letters A to Z were compared without case.
import { sql, type Kysely } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  // Of names that are equal now, none is kept: whoever used one of them would otherwise reach the project of another. All get their id at the end.
  await sql`
    update projects set name = left(name, 228) || ' (' || id || ')', updated_at = now()
    where exists (
      select from projects other
      where other.id <> projects.id and lower(other.name collate "und-x-icu") collate "C" = lower(projects.name collate "und-x-icu") collate "C"
    )`.execute(db)
  await sql`drop index projects_name`.execute(db)
  // Ordered by bytes: the order of ICU changes with its version, and would break the index.
  await sql`create unique index projects_name on projects ((lower(name collate "und-x-icu") collate "C"))`.execute(db)
}
