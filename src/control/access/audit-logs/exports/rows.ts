// The rows of export destinations, and of entries that are not delivered yet.
import { sql, type Insertable, type RawBuilder, type Selectable, type Updateable } from 'kysely'
import type { Db } from '../../../../store/db.ts'
import { newest, type Paging } from '../../../../store/lists.ts'
import type { Tables } from '../../../../store/tables.ts'
import type { AuditLogEntry, Position } from '../contract.ts'
import { ENTRY, entryOf } from '../rows.ts'

type Table = Tables['audit_log_destinations']
export type DestinationRow = Selectable<Table>

/**
 * An entry without a result is exported after this time: either its service has died, or the call still runs. When the result comes, the entry is exported
 * again.
 */
const RESULT_MINUTES = 15

const kept = (db: Db) => db.selectFrom('audit_log_destinations').selectAll().where('deleted_at', 'is', null)

export const findDestination = (db: Db, id: string): Promise<DestinationRow | undefined> => kept(db).where('id', '=', id).executeTakeFirst()

/** One page, newest first, with one row more than `limit` when there are more. */
export const listDestinations = (db: Db, filter: Paging): Promise<DestinationRow[]> => kept(db).$call(newest('audit_log_destinations', filter)).execute()

/** Undefined when there are `most` already. */
export async function insertDestination(db: Db, row: Insertable<Table>, most: number): Promise<DestinationRow | undefined> {
  return db.transaction().execute(async (trx) => {
    // One insert at a time: two could otherwise both find room for the last one.
    await sql`lock table audit_log_destinations in share row exclusive mode`.execute(trx)
    if ((await kept(trx).limit(most).execute()).length >= most) return undefined
    return trx.insertInto('audit_log_destinations').values(row).returningAll().executeTakeFirstOrThrow()
  })
}

/** The new value of `active`: active since `at`, or inactive since `at`. */
export const activeSince = (at: Date): RawBuilder<string> => sql<string>`active + tstzmultirange(tstzrange(${at.toISOString()}, null))`
export const pausedSince = (at: Date): RawBuilder<string> => sql<string>`active * tstzmultirange(tstzrange(null, ${at.toISOString()}))`

type Changes = Omit<Updateable<Table>, 'active'> & { active?: RawBuilder<string> }

/** Changes a destination for a caller. If it has failed before, it is tried again soon. Undefined when it was changed after `was` was read. */
export const changeDestination = (db: Db, was: DestinationRow, changes: Changes): Promise<DestinationRow | undefined> =>
  db
    .updateTable('audit_log_destinations')
    .set({ ...changes, version: was.version + 1, updated_at: sql<Date>`now()`, next_attempt_at: null })
    .where('id', '=', was.id)
    .where('version', '=', was.version)
    .where('deleted_at', 'is', null)
    .returningAll()
    .executeTakeFirst()

/** False when it was already deleted. */
export async function deleteDestination(db: Db, id: string): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('audit_log_destinations')
    .set({ deleted_at: sql<Date>`now()`, status: 'paused' })
    .where('id', '=', id)
    .where('deleted_at', 'is', null)
    .executeTakeFirst()
  return numUpdatedRows > 0n
}

const isDue = sql<boolean>`(next_attempt_at is null or next_attempt_at <= now())`

/** Active destinations that do not wait after a failure. */
export const dueDestinations = (db: Db): Promise<{ id: string }[]> =>
  db.selectFrom('audit_log_destinations').select('id').where('deleted_at', 'is', null).where('status', '=', 'active').where(isDue).execute()

/** The same for one, with its row. */
export const dueDestination = (db: Db, id: string): Promise<DestinationRow | undefined> =>
  kept(db).where('id', '=', id).where('status', '=', 'active').where(isDue).executeTakeFirst()

/** The oldest undelivered entries of a destination, after `position`. */
export async function undelivered(db: Db, id: string, position: Position | undefined, limit: number): Promise<AuditLogEntry[]> {
  let select = db
    .selectFrom('audit_log_undelivered as u')
    .innerJoin('audit_log', (join) => join.onRef('audit_log.at', '=', 'u.at').onRef('audit_log.event_id', '=', 'u.event_id'))
    .select(ENTRY)
    .where('u.destination_id', '=', id)
    .where(sql<boolean>`(audit_log.status <> 0 or u.at < now() - ${RESULT_MINUTES} * interval '1 minute')`)
  if (position) select = select.where(sql<boolean>`(u.at, u.event_id) > (${position.at.toISOString()}::timestamptz, ${position.eventId})`)
  return (await select.orderBy('u.at').orderBy('u.event_id').limit(limit).execute()).map(entryOf)
}

/** Records that these entries are in an object; `cursor` is the last one. An entry that has got another result meanwhile is exported again. */
export async function noteDelivered(db: Db, id: string, entries: readonly AuditLogEntry[], cursor: string): Promise<void> {
  const had = entries.map(({ timestamp: at, event_id, status }) => ({ at, event_id, status }))
  await sql`
    with delivered as (
      delete from audit_log_undelivered u
      using jsonb_to_recordset(${JSON.stringify(had)}::jsonb) as e (at timestamptz, event_id text, status smallint), audit_log l
      where u.destination_id = ${id} and u.at = e.at and u.event_id = e.event_id and l.at = e.at and l.event_id = e.event_id and l.status = e.status)
    update audit_log_destinations
    set consecutive_failures = 0, last_success_at = now(), last_exported_cursor = ${cursor}, next_attempt_at = null
    where id = ${id}`.execute(db)
}

/** Records a failure. The next attempt is after `firstMs`, doubled with each further failure up to `mostMs`. */
export const noteFailure = (db: Db, id: string, error: string, firstMs: number, mostMs: number): Promise<DestinationRow | undefined> =>
  db
    .updateTable('audit_log_destinations')
    .set({
      consecutive_failures: sql<number>`consecutive_failures + 1`,
      last_error: error,
      last_error_at: sql<Date>`now()`,
      next_attempt_at: sql<Date>`now() + least(${firstMs}::float8 * 2 ^ least(consecutive_failures, 30), ${mostMs}) * interval '1 millisecond'`,
    })
    .where('id', '=', id)
    .where('deleted_at', 'is', null)
    .returningAll()
    .executeTakeFirst()

/** Removes entries that cannot be delivered any more: of deleted destinations, and older than `days`, because the log may have removed them. */
export async function removeUndeliverable(db: Db, days: number, limit: number): Promise<number> {
  const { numAffectedRows } = await sql`
    delete from audit_log_undelivered where (destination_id, at, event_id) in (
      select u.destination_id, u.at, u.event_id from audit_log_undelivered u
      where u.at < now() - ${days} * interval '1 day'
        or not exists (select from audit_log_destinations d where d.id = u.destination_id and d.deleted_at is null)
      limit ${limit})`.execute(db)
  return Number(numAffectedRows ?? 0)
}
