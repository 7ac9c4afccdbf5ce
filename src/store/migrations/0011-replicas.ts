// Several services may share a database and what one driver manages (`host`, the scope). Each is a replica. A lease says which replica has a duty;
// the lease named after the replica says that it lives. A live row names the replica that watches what belongs to it.
import { sql, type Kysely } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table leases (
      scope text not null,
      duty text not null,
      replica text not null,
      until timestamptz not null,
      primary key (scope, duty)
    )`.execute(db)
  await sql`alter table browsers add column replica text`.execute(db)
  await sql`alter table invocations add column replica text`.execute(db)
}
