// Projects: every object of callers belongs to one. What exists moves into the default project.
import { sql, type Kysely } from 'kysely'

/** The same everywhere, so that it is known without a query. */
const DEFAULT_PROJECT = 'defaultproject0000000000'

export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table projects (
      id text primary key,
      name text not null,
      status text not null default 'active',          -- active | archived
      created_at timestamptz not null default now(),
      updated_at timestamptz not null default now()
    )`.execute(db)
  await sql`create unique index projects_name on projects (lower(name))`.execute(db)
  await sql`insert into projects (id, name) values (${DEFAULT_PROJECT}, 'Default')`.execute(db)
  // A deleted project leaves ended objects without one: then nobody sees them, until they are purged. Only an empty project can be deleted, and the
  // reference refuses what is made meanwhile.
  for (const table of ['api_keys', 'browsers', 'deployments', 'app_versions', 'invocations'])
    await sql`alter table ${sql.table(table)} add column project_id text references projects (id) on delete set null`.execute(db)
  // Keys of settings are for all projects, and instances that no session has claimed belong to none.
  await sql`update browsers set project_id = ${DEFAULT_PROJECT} where created_at is not null or state = 'starting' and warm_kind is null`.execute(db)
  for (const table of ['deployments', 'app_versions', 'invocations']) await sql`update ${sql.table(table)} set project_id = ${DEFAULT_PROJECT}`.execute(db)
  await sql`update api_keys set project_id = ${DEFAULT_PROJECT} where deployment_id is not null`.execute(db)
  await sql`drop index browsers_name`.execute(db)
  await sql`create unique index browsers_name on browsers (scope, project_id, lower(name)) where name is not null and deleted_at is null`.execute(db)
  await sql`drop index app_versions_name`.execute(db)
  await sql`create unique index app_versions_name on app_versions (project_id, app_name, version)`.execute(db)
  // Lists are of one project, newest first.
  await sql`drop index browsers_listed`.execute(db)
  await sql`create index browsers_listed on browsers (project_id, created_at desc, id) where created_at is not null`.execute(db)
  await sql`drop index invocations_listed`.execute(db)
  await sql`create index invocations_listed on invocations (project_id, started_at desc, id)`.execute(db)
  for (const table of ['api_keys', 'deployments']) await sql`create index ${sql.ref(`${table}_project`)} on ${sql.table(table)} (project_id)`.execute(db)
}
