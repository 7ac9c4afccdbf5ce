// Profiles: what a browser keeps from one session to the next, in versions. The bytes of a version are an object.
import { sql, type Kysely } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table profiles (
      id text primary key,
      project_id text references projects (id) on delete set null,
      name text,
      version_id text,                                -- the version that sessions load; null: nothing has been saved yet
      created_at timestamptz not null default now(),
      updated_at timestamptz,                         -- null: neither saved nor renamed yet
      last_used_at timestamptz,
      deleted_at timestamptz
    )`.execute(db)
  // With case: callers use ids of their own users as names, and two that differ in case only must not share a browser's cookies.
  await sql`create unique index profiles_name on profiles (project_id, name) where deleted_at is null`.execute(db)
  await sql`create index profiles_listed on profiles (project_id, created_at desc, id) where project_id is not null`.execute(db)
  await sql`
    create table profile_versions (
      id text primary key,
      profile_id text not null references profiles (id) on delete cascade,
      number bigint generated always as identity,     -- later versions have larger ones
      scope text not null,                            -- the service in whose object store the object is, when objects are files
      object text not null,
      bytes bigint not null,
      sha256 text not null,
      chromium text,                                  -- the full version of the Chromium that wrote it, if its agent said so
      session_id text not null,
      is_whole boolean not null,                      -- false: Chromium had not been closed properly, so the last seconds may be missing
      created_at timestamptz not null default now()
    )`.execute(db)
  await sql`create index profile_versions_of on profile_versions (profile_id, number desc)`.execute(db)
  await sql`
    alter table browsers
      add column profile_id text,
      add column profile_save boolean not null default false,  -- its profile is saved when it ends
      add column profile_base bigint,                 -- the number of the newest version when it loaded the profile: later ones are other sessions'
      add column profile_end jsonb                    -- how the save ended: {saved, version_id?, message}`.execute(db)
  await sql`create index browsers_profile on browsers (profile_id) where profile_id is not null`.execute(db)
}
