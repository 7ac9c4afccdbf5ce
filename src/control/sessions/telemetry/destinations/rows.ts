// All queries on the table of telemetry destinations, without those of the exporter.
import { sql, type Insertable, type RawBuilder, type Selectable, type SqlBool, type Updateable } from 'kysely'
import { isId } from '../../../../base/ids.ts'
import type { Db } from '../../../../store/db.ts'
import { newest, type Asked } from '../../../../store/lists.ts'
import { holds, isCalled, isNamed } from '../../../../store/names.ts'
import type { Tables } from '../../../../store/tables.ts'

type Table = Tables['telemetry_destinations']
export type DestinationRow = Selectable<Table>

const kept = (db: Db) => db.selectFrom('telemetry_destinations').selectAll().where('deleted_at', 'is', null)

/** How a destination is named: an id or a name in a path; one of the two in an option of a browser. A text in the form of an id is compared with ids only. */
export type Naming = string | { id: string } | { name: string }

function isMeant(by: Naming): RawBuilder<SqlBool> {
  const { id, name } = typeof by === 'string' ? (isId(by) ? { id: by, name: '' } : { id: undefined, name: by }) : { id: undefined, name: '', ...by }
  return id === undefined ? isCalled('name', name) : sql`id = ${id}`
}

export const findDestination = (db: Db, by: Naming): Promise<DestinationRow | undefined> => kept(db).where(isMeant(by)).executeTakeFirst()

/** The same, for a change in this transaction. */
export const lockDestination = (tx: Db, by: Naming): Promise<DestinationRow | undefined> => kept(tx).where(isMeant(by)).forUpdate().executeTakeFirst()

/** One page, newest first, with one row more than `limit` when there are more. */
export const listDestinations = (db: Db, { name, query, ...filter }: Asked): Promise<DestinationRow[]> =>
  kept(db)
    .where(name ? isNamed('name', name) : sql<SqlBool>`true`)
    .where(query ? sql<SqlBool>`(id = ${query} or ${holds('name', query)} or ${holds('endpoint', query)})` : sql<SqlBool>`true`)
    .$call(newest('telemetry_destinations', filter))
    .execute()

/** Undefined when there are `most` already. */
export async function insertDestination(db: Db, row: Insertable<Table>, most: number): Promise<DestinationRow | undefined> {
  return db.transaction().execute(async (tx) => {
    // One insert at a time: two could otherwise both find room for the last one. Sessions that name a destination do not wait for this lock.
    await sql`lock table telemetry_destinations in share update exclusive mode`.execute(tx)
    if ((await kept(tx).limit(most).execute()).length >= most) return undefined
    return tx.insertInto('telemetry_destinations').values(row).returningAll().executeTakeFirstOrThrow()
  })
}

/** Changes a destination for a caller. If it has failed before, the next attempt is made at once. */
export const changeDestination = (tx: Db, id: string, changes: Updateable<Table>): Promise<DestinationRow> =>
  tx
    .updateTable('telemetry_destinations')
    .set({ ...changes, updated_at: sql<Date>`now()`, next_attempt_at: null })
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirstOrThrow()

/** The uses of a destination: number of sessions, of pools, and of auth connections whose sessions export to it. Call it with the destination locked. */
export async function usesOf(tx: Db, id: string): Promise<{ sessions: number; pools: number; connections: number }> {
  const { rows } = await sql<{ sessions: number; pools: number; connections: number }>`
    select
      (select count(distinct e.session_id) from telemetry_exports e join browsers b on b.id = e.session_id
        where e.destination_id = ${id} and e.finished_at is null and e.until_ts is null and b.deleted_at is null) as sessions,
      (select count(*) from browser_pools p where p.deleted_at is null and p.resolved->>'destination_id' = ${id}) as pools,
      (select count(*) from auth_connections c where c.browser#>>'{telemetry,export,otlp,destination,id}' = ${id}) as connections`.execute(tx)
  return rows[0]!
}

/** Marks it deleted and removes its secrets. Events that it has not got yet are dropped. */
export async function deleteDestination(tx: Db, id: string): Promise<void> {
  await tx
    .updateTable('telemetry_destinations')
    .set({ deleted_at: sql<Date>`now()`, headers: null })
    .where('id', '=', id)
    .execute()
  await tx
    .updateTable('telemetry_exports')
    .set({ finished_at: sql<Date>`now()` })
    .where('destination_id', '=', id)
    .where('finished_at', 'is', null)
    .execute()
}

/** Removes at most `limit` destinations that were deleted more than `days` ago. Returns their number. Events only for them are all removed by then. */
export async function removeDeleted(db: Db, days: number, limit: number): Promise<number> {
  const { numAffectedRows } = await sql`
    delete from telemetry_destinations where id in (
      select id from telemetry_destinations where deleted_at < now() - ${days} * interval '1 day'
        and not exists (select from telemetry_exports e where e.destination_id = telemetry_destinations.id) limit ${limit})`.execute(db)
  return Number(numAffectedRows ?? 0)
}

/** Removes at most `limit` rows of exports that were finished more than `days` ago and whose sessions have no stored telemetry. Returns their number. */
export async function removeFinished(db: Db, days: number, limit: number): Promise<number> {
  const { numAffectedRows } = await sql`
    delete from telemetry_exports where id in (
      select id from telemetry_exports e where finished_at < now() - ${days} * interval '1 day'
        and not exists (select from telemetry_segments s where s.session_id = e.session_id)
        and not exists (select from browsers b where b.id = e.session_id and b.deleted_at is null) limit ${limit})`.execute(db)
  return Number(numAffectedRows ?? 0)
}
