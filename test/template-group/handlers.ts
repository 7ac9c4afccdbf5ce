// Handlers of the template group: each a sentence, or the few rules that it has.
import { newId } from '../../src/base/ids.ts'
import { fault } from '../../src/http/fault.ts'
import { known, type Handlers } from '../../src/http/route.ts'
import type { Db } from '../../src/store/db.ts'
import { pageOf } from '../../src/store/lists.ts'
import type { notes as contract } from './contract.ts'
import { findNote, insertNote, listNotes, record, removeNote } from './rows.ts'

export const noteHandlers = (db: Db): Handlers<typeof contract> => ({
  async createNote({ principal, body: { text, profile_id = null } }) {
    return record(await insertNote(db, { id: newId(), project_id: known(principal).project, text, profile_id }))
  },
  async listNotes({ principal, query }) {
    return pageOf(await listNotes(db, known(principal).project, query), query, record)
  },
  async getNote({ principal, params: { id } }) {
    const row = await findNote(db, known(principal).project, id)
    if (!row) throw fault.notFound('note', id)
    return record(row)
  },
  async deleteNote({ principal, params: { id } }) {
    if (!(await removeNote(db, known(principal).project, id))) throw fault.notFound('note', id)
  },
})
