// All queries on the table of extensions.
import { sql, type Selectable } from 'kysely'
import type { Db } from '../../../store/db.ts'
import { newest, type Asked } from '../../../store/lists.ts'
import { isAskedFor, isCalled } from '../../../store/names.ts'
import type { ObjectOwner } from '../../../store/sweep.ts'
import type { Tables } from '../../../store/tables.ts'
import type { Extension, ExtensionChoice } from './contract.ts'

export type ExtensionRow = Selectable<Tables['extensions']>

/** The answer for an extension. */
export const record = ({ id, created_at, name, size_bytes, checksum, last_used_at }: ExtensionRow): Extension => ({
  id,
  created_at: created_at.toISOString(),
  name,
  size_bytes,
  checksum,
  last_used_at: last_used_at?.toISOString() ?? null,
})

/** Finds an extension by its id or its name. */
export const findExtension = (db: Db, project: string, { id, name }: ExtensionChoice): Promise<ExtensionRow | undefined> =>
  db
    .selectFrom('extensions')
    .selectAll()
    .where('project_id', '=', project)
    .$if(id !== undefined, (select) => select.where('id', '=', id!))
    .$if(name !== undefined, (select) => select.where(isCalled('name', name!)))
    .executeTakeFirst()

/** One page of extensions, newest first, with one row more than `limit` when there are more. */
export const listExtensions = (db: Db, project: string, filter: Asked): Promise<ExtensionRow[]> =>
  db
    .selectFrom('extensions')
    .selectAll()
    .where('project_id', '=', project)
    .where(isAskedFor('extensions', filter))
    .$call(newest('extensions', filter))
    .execute()

export const insertExtension = (
  db: Db,
  row: Pick<ExtensionRow, 'id' | 'project_id' | 'scope' | 'name' | 'object' | 'size_bytes' | 'checksum' | 'by_policy'>,
): Promise<ExtensionRow> => db.insertInto('extensions').values(row).returningAll().executeTakeFirstOrThrow()

/** Returns the key of its object; undefined when the extension is already deleted. */
export const removeExtension = async (db: Db, id: string): Promise<string | undefined> =>
  (await db.deleteFrom('extensions').where('id', '=', id).returning('object').executeTakeFirst())?.object

/** Records that a session has loaded these. */
export const noteUse = async (db: Db, ids: string[]): Promise<void> =>
  void (await db
    .updateTable('extensions')
    .set({ last_used_at: sql`now()` })
    .where('id', 'in', ids)
    .execute())

const PREFIX = 'extensions'

/** The key of an extension's archive. */
export const extensionKey = (id: string): string => `${PREFIX}/${id}`

/** The archives that rows name; the sweep of objects removes all others. */
export const extensionObjects = (db: Db, scope: string): ObjectOwner => ({
  prefix: PREFIX,
  named: async (ids) => (await db.selectFrom('extensions').select('object').where('id', 'in', ids).execute()).map(({ object }) => object),
  async expected(after, limit) {
    const rows = await db
      .selectFrom('extensions')
      .select(['id', 'object'])
      .where('scope', '=', scope)
      .where('id', '>', after)
      .orderBy('id')
      .limit(limit)
      .execute()
    return rows.map(({ id, object }) => ({ id, keys: [object] }))
  },
})
