// Limits: how many sessions and runs a project may have at once. Null means no limit besides that of the service.
import { sql, type Kysely } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`alter table projects
    add column max_concurrent_sessions integer check (max_concurrent_sessions > 0),
    add column max_concurrent_invocations integer check (max_concurrent_invocations > 0)`.execute(db)
  // What applies to projects that have no limit of their own. One row at most.
  await sql`
    create table org_limits (
      only_row boolean primary key default true check (only_row),
      default_project_max_concurrent_sessions integer check (default_project_max_concurrent_sessions > 0)
    )`.execute(db)
  await sql`insert into org_limits default values`.execute(db)
}
