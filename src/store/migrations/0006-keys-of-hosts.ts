// Keys that come from a service's settings belong to its host, so that a second service on the database does not revoke them.
import { sql, type Kysely } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  // Empty for keys that no host's settings name. Two hosts may have the same key, and each revokes only its own.
  await sql`alter table api_keys add column host text not null default ''`.execute(db)
  await sql`alter table api_keys drop constraint api_keys_hash_key`.execute(db)
  await sql`create unique index api_keys_hash on api_keys (hash, host)`.execute(db)
  // Until now each start revoked the keys of every other service, so these are of the service that started last.
  await sql`
    update api_keys set host = coalesce((select host from browsers order by made_at desc limit 1), '')
    where name in ('COB_API_KEY', 'first key')`.execute(db)
}
