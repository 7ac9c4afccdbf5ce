// The rules of the template group: create, list, read and delete the notes of a project.
import { newId } from '../../src/base/ids.ts'
import { fault } from '../../src/http/fault.ts'
import type { Page } from '../../src/http/route.ts'
import type { Db } from '../../src/store/db.ts'
import { pageOf, type Paging } from '../../src/store/lists.ts'
import type { CreateNote, Note } from './contract.ts'
import { findNote, insertNote, listNotes, record, removeNote } from './rows.ts'

export class Notes {
  readonly #db: Db

  constructor(db: Db) {
    this.#db = db
  }

  async create(project: string, { text, profile_id }: CreateNote): Promise<Note> {
    return record(await insertNote(this.#db, { id: newId(), project_id: project, text, profile_id: profile_id ?? null }))
  }

  async list(project: string, paging: Paging): Promise<Page<Note>> {
    return pageOf(await listNotes(this.#db, project, paging), paging, record)
  }

  /** @throws 404 */
  async get(project: string, id: string): Promise<Note> {
    const row = await findNote(this.#db, project, id)
    if (!row) throw fault.notFound('note', id)
    return record(row)
  }

  /** @throws 404 */
  async delete(project: string, id: string): Promise<void> {
    if (!(await removeNote(this.#db, project, id))) throw fault.notFound('note', id)
  }
}
