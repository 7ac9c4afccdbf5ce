// The rows of keys that callers manage. Keys of deployments are internal: no query here finds one.
import { sql, type InferResult, type RawBuilder, type SqlBool } from 'kysely'
import { newId } from '../../../base/ids.ts'
import type { Db } from '../../../store/db.ts'
import { holds, isNamed } from '../../../store/names.ts'
import { newKey, storedKey } from '../keys.ts'
import type { ApiKey, List } from './contract.ts'

/** The project whose keys a caller sees; undefined: all keys, also those without a project. */
export type Within = string | undefined

const keysWithin = (db: Db, within: Within) =>
  db
    .selectFrom('api_keys as k')
    .leftJoin('projects as p', 'p.id', 'k.project_id')
    .leftJoin('people as h', 'h.id', 'k.created_by')
    .leftJoin('api_keys as c', (join) => join.on(sql<SqlBool>`c.id = coalesce(k.created_by, k.id)`))
    .select(['k.id', 'k.name', 'k.masked', 'k.created_at', 'k.expires_at', 'k.deleted_at', 'k.lifetime_seconds', 'k.project_id', 'k.created_by'])
    .select(['p.name as project_name', 'h.email as creator_email'])
    .select((eb) => eb.fn.coalesce('h.name', 'h.email', 'c.name').as('creator_name'))
    .where('k.deployment_id', 'is', null)
    .$if(within !== undefined, (select) => select.where('k.project_id', '=', within!))

export type KeyRow = InferResult<ReturnType<typeof keysWithin>>[number]

/** The answer for a key. */
export function record(row: KeyRow): ApiKey {
  const creator = row.created_by ?? row.id
  return {
    id: row.id,
    name: row.name,
    masked_key: row.masked,
    created_by: { id: creator, email: row.creator_email ?? `${creator}@key.cob.internal`, name: row.creator_name },
    created_at: row.created_at.toISOString(),
    expires_at: row.expires_at?.toISOString() ?? null,
    deleted_at: row.deleted_at?.toISOString() ?? null,
    project_id: row.project_id,
    project_name: row.project_name,
  }
}

export const findKey = (db: Db, within: Within, id: string, { includeDeleted = false, lock = false } = {}): Promise<KeyRow | undefined> =>
  keysWithin(db, within)
    .where('k.id', '=', id)
    .$if(!includeDeleted, (select) => select.where('k.deleted_at', 'is', null))
    .$if(lock, (select) => select.forUpdate('k'))
    .executeTakeFirst()

/** One page of keys, with one row more than `limit` when there are more. */
export async function listKeys(db: Db, within: Within, { offset, limit, ...filter }: List): Promise<KeyRow[]> {
  const { name, query, sort_by: by, sort_direction: direction = by === 'created_at' ? 'desc' : 'asc' } = filter
  const status = filter.status ?? (filter.include_deleted ? 'all' : 'active')
  let select = keysWithin(db, within)
  if (status !== 'all') select = select.where('k.deleted_at', status === 'active' ? 'is' : 'is not', null)
  if (name) select = select.where(isNamed('k.name', name))
  if (query)
    select = select.where((eb) =>
      eb.or([
        ...['k.name', 'c.name', 'p.name'].map((column) => holds(column, query)),
        ...['k.id', 'k.masked'].map((column) => sql<SqlBool>`starts_with(${sql.ref(column)}, ${query})`),
      ]),
    )
  return select
    .orderBy(by === 'name' ? sql`lower(k.name collate "und-x-icu")` : `k.${by}`, direction)
    .orderBy('k.id')
    .offset(offset)
    .limit(limit + 1)
    .execute()
}

/** Prevents the deletion of an active project until the transaction ends. @returns whether there is one */
export const holdActiveProject = async (tx: Db, id: string): Promise<boolean> =>
  (await tx.selectFrom('projects').select('id').where('id', '=', id).where('status', '=', 'active').forKeyShare().executeTakeFirst()) !== undefined

/** Prevents the deletion of a project until the transaction ends. */
export const holdProject = async (tx: Db, id: string | null): Promise<void> =>
  void (id !== null && (await sql`select from projects where id = ${id} for key share`.execute(tx)))

/** The values of a new key. */
export interface NewKey {
  name: string
  project: string | null
  createdBy: string
  /** The expiry time by the database's clock; null: never. */
  expiresAt: RawBuilder<Date> | null
}

export const afterSeconds = (seconds: number): RawBuilder<Date> => sql<Date>`now() + make_interval(secs => ${seconds})`

/** The expiry time of a key, if that is before `expiresAt`. */
export async function endBefore(db: Db, id: string, expiresAt: NewKey['expiresAt']): Promise<Date | undefined> {
  const row = await db
    .selectFrom('api_keys')
    .select('expires_at')
    .where('id', '=', id)
    .where('expires_at', '<', expiresAt ?? sql<Date>`'infinity'::timestamptz`)
    .executeTakeFirst()
  return row?.expires_at ?? undefined
}

/** Inserts a key. Only its hash is stored, so nobody can read the key later. */
export async function insertKey(db: Db, { name, project, createdBy, expiresAt }: NewKey): Promise<{ id: string; key: string }> {
  const [id, key] = [newId(), newKey()]
  await db
    .insertInto('api_keys')
    .values({
      id,
      name,
      ...storedKey(key),
      project_id: project,
      created_by: createdBy,
      ...(expiresAt && { expires_at: expiresAt, lifetime_seconds: sql<number>`extract(epoch from ${expiresAt} - now())` }),
    })
    .execute()
  return { id, key }
}

/** Changes a key that is not deleted. @returns whether there is one */
export async function changeKey(db: Db, within: Within, id: string, set: { name: string } | { deleted_at: RawBuilder<Date> }): Promise<boolean> {
  const changed = await db
    .updateTable('api_keys')
    .set(set)
    .where('id', '=', id)
    .where('deployment_id', 'is', null)
    .where('deleted_at', 'is', null)
    .$if(within !== undefined, (update) => update.where('project_id', '=', within!))
    .returning('id')
    .executeTakeFirst()
  return changed !== undefined
}

/** Sets the expiry of a key to this time, unless it expires earlier. */
export async function shortenKey(db: Db, id: string, seconds: number): Promise<void> {
  await db
    .updateTable('api_keys')
    .set({ expires_at: sql<Date>`least(expires_at, ${afterSeconds(seconds)})` })
    .where('id', '=', id)
    .execute()
}
