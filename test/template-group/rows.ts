// The rows of the template group. In a real group, a migration in src/store/migrations creates the table, and src/store/tables.ts has its type.
import type { Selectable } from 'kysely'
import type { Db } from '../../src/store/db.ts'
import { newest, type Paging } from '../../src/store/lists.ts'
import type { DefaultTime } from '../../src/store/columns.ts'
import type { Tables } from '../../src/store/tables.ts'
import type { Note } from './contract.ts'

declare module '../../src/store/tables.ts' {
  interface Tables {
    notes: { id: string; project_id: string | null; created_at: DefaultTime; text: string; profile_id: string | null }
  }
}

type NoteRow = Selectable<Tables['notes']>

export const record = ({ id, created_at, text, profile_id }: NoteRow): Note => ({ id, created_at: created_at.toISOString(), text, profile_id })

export const insertNote = (db: Db, row: Pick<NoteRow, 'id' | 'project_id' | 'text' | 'profile_id'>): Promise<NoteRow> =>
  db.insertInto('notes').values(row).returningAll().executeTakeFirstOrThrow()

/** Finds a note of this project only, so a key of another project cannot see it. */
export const findNote = (db: Db, project: string, id: string): Promise<NoteRow | undefined> =>
  db.selectFrom('notes').selectAll().where('project_id', '=', project).where('id', '=', id).executeTakeFirst()

/** Returns one row more than `limit` when there are more. */
export const listNotes = (db: Db, project: string, filter: Paging): Promise<NoteRow[]> =>
  db.selectFrom('notes').selectAll().where('project_id', '=', project).$call(newest('notes', filter)).execute()

export const removeNote = (db: Db, project: string, id: string): Promise<NoteRow | undefined> =>
  db.deleteFrom('notes').where('project_id', '=', project).where('id', '=', id).returningAll().executeTakeFirst()

export const removeNotesOf = (db: Db, profile: string): Promise<unknown> => db.deleteFrom('notes').where('profile_id', '=', profile).execute()
