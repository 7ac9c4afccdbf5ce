// Browser pools: browsers of one configuration that are kept ready for the callers of a project.
import { sql, type Kysely } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table browser_pools (
      id text primary key,
      scope text not null,                            -- the service that keeps its browsers
      project_id text references projects (id) on delete set null,
      name text,
      size integer not null,
      config jsonb not null,                          -- as its callers have given it, without size, name and policies
      chrome_policy jsonb,
      resolved jsonb not null,                        -- {extension_ids, profile_id?}: what its configuration named when it was given
      problem text,                                   -- why its last browser could not be made; null when the last one was
      generation integer not null default 1,          -- grows when the configuration changes
      oldest integer not null default 1,              -- browsers of an earlier generation that nobody has had are ended
      is_forced boolean not null default false,       -- it was deleted with the browsers that its callers had
      discarded integer not null default 0,           -- how many idle browsers it has had ended to be made anew, so far
      created_at timestamptz not null default now(),
      deleted_at timestamptz
    )`.execute(db)
  await sql`create unique index browser_pools_name on browser_pools (scope, project_id, lower(name)) where name is not null and deleted_at is null`.execute(db)
  await sql`create index browser_pools_listed on browser_pools (project_id, created_at desc, id) where project_id is not null`.execute(db)
  await sql`create index browser_pools_kept on browser_pools (scope) where deleted_at is null`.execute(db)
  await sql`
    alter table browsers
      add column pool_id text,
      add column pool_generation integer,             -- the pool's configuration that it was made with
      add column pool_baseline jsonb,                 -- {options, profile_id}: what it goes back to when a caller gives it back
      add column lease integer not null default 0,    -- which caller of its pool has it, or has had it last; its addresses open this lease only
      add column profile_version text                 -- the version of its profile that it has loaded`.execute(db)
  await sql`create index browsers_pool on browsers (pool_id, state) where pool_id is not null`.execute(db)
}
