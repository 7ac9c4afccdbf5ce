// The deletion of a deployment gets states with a log of their moves. Until now it was told by a time, a state and whether secrets were left.
import { sql, type Kysely } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`alter table deployments add column deletion text not null default 'kept'`.execute(db)
  await sql`
    update deployments set deletion = case when state in ('stopped', 'failed') and secrets is null then 'deleted' else 'deleting' end
    where deleted_at is not null`.execute(db)
  await sql`
    insert into app_events (deployment_id, at, kind, state)
    select d.id, d.deleted_at, 'deletion', step.state
    from deployments d join (values (1, 'deleting'), (2, 'deleted')) step (number, state) on d.deletion = 'deleted' or (d.deletion = 'deleting' and step.number = 1)
    order by d.id, step.number`.execute(db)
  await sql`drop index deployments_listed`.execute(db)
  await sql`create index deployments_listed on deployments (created_at desc, id) where deletion = 'kept'`.execute(db)
}
