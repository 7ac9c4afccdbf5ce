// All queries on the table of credentials.
import { sql, type Insertable, type Selectable, type Updateable } from 'kysely'
import { isId } from '../../../base/ids.ts'
import type { Db } from '../../../store/db.ts'
import { newest, type Paging } from '../../../store/lists.ts'
import { holds } from '../../../store/names.ts'
import type { Tables } from '../../../store/tables.ts'
import { hostOf } from './contract.ts'

type Table = Tables['credentials']
export type CredentialRow = Selectable<Table>

export interface CredentialFilter extends Paging {
  domain?: string | undefined
  query?: string | undefined
}

/** The credential of a project with this id or name. Names are compared exactly; a text in the form of an id is compared with ids only. */
const named = (db: Db, project: string, idOrName: string) =>
  db
    .selectFrom('credentials')
    .selectAll()
    .where('project_id', '=', project)
    .where(isId(idOrName) ? 'id' : 'name', '=', idOrName)

export const findCredential = (db: Db, project: string, idOrName: string): Promise<CredentialRow | undefined> => named(db, project, idOrName).executeTakeFirst()

/** The same, locked for a change in this transaction: changes of its values wait for each other. */
export const lockCredential = (tx: Db, project: string, idOrName: string): Promise<CredentialRow | undefined> =>
  named(tx, project, idOrName).forUpdate().executeTakeFirst()

/** One page, newest first, with one row more than `limit` when there are more. */
export function listCredentials(db: Db, project: string, { domain, query, ...paging }: CredentialFilter): Promise<CredentialRow[]> {
  let select = db.selectFrom('credentials').selectAll().where('project_id', '=', project)
  if (domain) select = select.where('domain', '=', hostOf(domain.trim()) ?? domain)
  if (query) select = select.where(sql<boolean>`(id = ${query} or ${holds('name', query)} or ${holds('domain', query)})`)
  return select.$call(newest('credentials', paging)).execute()
}

export const insertCredential = (db: Db, row: Insertable<Table>): Promise<CredentialRow> =>
  db.insertInto('credentials').values(row).returningAll().executeTakeFirstOrThrow()

/** Inserts a credential. False when the name is taken. */
export const insertUnlessTaken = async (db: Db, row: Insertable<Table>): Promise<boolean> => {
  const { numInsertedOrUpdatedRows } = await db
    .insertInto('credentials')
    .values(row)
    .onConflict((oc) => oc.columns(['project_id', 'name']).doNothing())
    .executeTakeFirst()
  return (numInsertedOrUpdatedRows ?? 0n) > 0n
}

/** Call it with the credential locked. */
export const changeCredential = (tx: Db, id: string, changes: Updateable<Table>): Promise<CredentialRow> =>
  tx
    .updateTable('credentials')
    .set({ ...changes, updated_at: sql<Date>`now()` })
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirstOrThrow()

/** Removes it with its encrypted values. False when it was already deleted. */
export async function deleteCredential(db: Db, project: string, idOrName: string): Promise<boolean> {
  const { numDeletedRows } = await db
    .deleteFrom('credentials')
    .where('project_id', '=', project)
    .where(isId(idOrName) ? 'id' : 'name', '=', idOrName)
    .executeTakeFirst()
  return numDeletedRows > 0n
}
