// Names of projects are unique without case in every alphabet, by the rules of ICU. Until now only the letters A to Z were compared without case.
import { sql, type Kysely } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  // Some names may be equal by the new rule. Each of these projects gets its id at the end of its name. If one of them kept the plain name, callers of the
  // others would work in that project without noticing.
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
