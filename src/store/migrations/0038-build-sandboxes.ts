// Each attempt of a build has a sandbox of its own, so two replicas that both begin a build do not end each other's.
import { sql, type Kysely } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  // Of the last attempt; null: an earlier version has begun it, in a sandbox with the deployment's id.
  await sql`alter table deployments add column sandbox_id text`.execute(db)
}
