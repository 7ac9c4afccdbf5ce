// Proxies: how sessions reach the internet when not directly.
import { sql, type Kysely } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table proxies (
      id text primary key,
      project_id text references projects (id) on delete set null,
      name text,                                      -- not unique
      type text not null,                             -- custom, or datacenter | isp | residential | mobile: the operator's own server
      protocol text not null,                         -- http | https | socks5
      config jsonb not null,                          -- what callers see of it
      secrets bytea,                                  -- sealed JSON: user name, password, certificates; null when it has none, or when a deleted one is out of use
      bypass_hosts text[] not null,
      status text,                                    -- available | unavailable, as the last check without a url of its own said
      ip_address text,                                -- as that check saw it
      last_checked timestamptz,
      created_at timestamptz not null default now(),
      deleted_at timestamptz
    )`.execute(db)
  await sql`create index proxies_listed on proxies (project_id, created_at desc, id) where project_id is not null`.execute(db)
  await sql`create index proxies_deleted on proxies (deleted_at) where deleted_at is not null`.execute(db)
  // The sessions that use a proxy; also how a list of sessions finds them by it.
  await sql`create index browsers_proxy on browsers ((options->>'proxy_id')) where options ? 'proxy_id'`.execute(db)
}
