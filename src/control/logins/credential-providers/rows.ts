// All queries on the table of credential providers.
import { sql, type Insertable, type Selectable, type Updateable } from 'kysely'
import { isId } from '../../../base/ids.ts'
import type { Db } from '../../../store/db.ts'
import type { Paging } from '../../../store/lists.ts'
import { isAskedFor, isCalled } from '../../../store/names.ts'
import type { Tables } from '../../../store/tables.ts'

type Table = Tables['credential_providers']
export type ProviderRow = Selectable<Table>

export interface ProviderFilter extends Paging {
  query?: string | undefined
}

const all = (db: Db) => db.selectFrom('credential_providers').selectAll()

export const findProvider = (db: Db, id: string): Promise<ProviderRow | undefined> => all(db).where('id', '=', id).executeTakeFirst()

/** A text in the form of an id is compared with ids only. */
export const findNamed = (db: Db, nameOrId: string): Promise<ProviderRow | undefined> =>
  isId(nameOrId) ? findProvider(db, nameOrId) : all(db).where(isCalled('name', nameOrId)).executeTakeFirst()

/** One page in the order in which providers are asked, with one row more than `limit` when there are more. */
export const listProviders = (db: Db, { query, offset, limit }: ProviderFilter): Promise<ProviderRow[]> =>
  all(db)
    .where(isAskedFor('credential_providers', { query }))
    .orderBy('priority')
    .orderBy('created_at')
    .orderBy('id')
    .offset(offset)
    .limit(limit + 1)
    .execute()

/** Undefined when there are `most` already. */
export const insertProvider = (db: Db, row: Insertable<Table>, most: number): Promise<ProviderRow | undefined> =>
  db.transaction().execute(async (tx) => {
    // One insert at a time: two could otherwise both find room for the last one.
    await sql`lock table credential_providers in share update exclusive mode`.execute(tx)
    if ((await all(tx).limit(most).execute()).length >= most) return undefined
    return tx.insertInto('credential_providers').values(row).returningAll().executeTakeFirstOrThrow()
  })

export const changeProvider = (db: Db, id: string, changes: Updateable<Table>): Promise<ProviderRow | undefined> =>
  db
    .updateTable('credential_providers')
    .set({ ...changes, updated_at: sql<Date>`clock_timestamp()`, version: sql<number>`version + 1` })
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirst()

/** Deletes a provider. Returns whether there was one. The row is removed completely, because of its token. */
export async function deleteProvider(db: Db, id: string): Promise<boolean> {
  const { numDeletedRows } = await db.deleteFrom('credential_providers').where('id', '=', id).executeTakeFirst()
  return numDeletedRows > 0n
}
