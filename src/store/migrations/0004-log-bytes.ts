// How much of the database the log of each deployment takes, so that it can be bounded without counting.
import { sql, type Kysely } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`alter table deployments add column log_bytes bigint not null default 0 -- of lines in app_events, with 100 for each`.execute(db)
  await sql`
    update deployments d set log_bytes = (
      select coalesce(sum(octet_length(line) + 100), 0) from app_events where deployment_id = d.id and kind = 'log'
    )`.execute(db)
}
