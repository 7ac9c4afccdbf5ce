// Extensions: one row for each; the archive is an object that the row names.
import { sql, type Kysely } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table extensions (
      id text primary key,
      -- Only an empty project can be deleted, so an extension always has one.
      project_id text not null references projects (id),
      scope text not null,               -- whose object store has the archive, as far as that is not shared
      name text,
      object text not null,
      size_bytes integer not null,
      checksum text not null,            -- SHA-256 in hex
      by_policy boolean not null,        -- it has update.xml and a .crx
      created_at timestamptz not null default now(),
      last_used_at timestamptz
    )`.execute(db)
  // As the names of projects: without case, and ordered by bytes.
  await sql`create unique index extensions_name on extensions (project_id, (lower(name collate "und-x-icu") collate "C")) where name is not null`.execute(db)
  await sql`create index extensions_listed on extensions (project_id, created_at desc, id)`.execute(db)
}
