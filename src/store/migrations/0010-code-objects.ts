// The code of a deployment is an object. Deployments of earlier versions have theirs in the data directory until it is packed (deployments/code.ts).
import { sql, type Kysely } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    alter table deployments
      add column code_key text,      -- key of the object; null before it is built, and when it has ended
      add column code_bytes bigint`.execute(db)
}
