// The handlers of the template group. A handler gets parsed input, calls the rules and returns.
import { known, type Handlers } from '../../src/http/route.ts'
import type { notes as contract } from './contract.ts'
import type { Notes } from './notes.ts'

export const noteHandlers = (notes: Notes): Handlers<typeof contract> => ({
  createNote: ({ principal, body }) => notes.create(known(principal).project, body),
  listNotes: ({ principal, query }) => notes.list(known(principal).project, query),
  getNote: ({ principal, params }) => notes.get(known(principal).project, params.id),
  deleteNote: ({ principal, params }) => notes.delete(known(principal).project, params.id),
})
