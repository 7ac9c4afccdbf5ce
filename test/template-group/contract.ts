// The contract of the template group: the requests and answers of its calls. It has only data, because clients, commands and pages read it too.
import * as z from 'zod'
import { json, none, page, pagingQuery, route } from '../../src/http/route.ts'

const group = 'Notes'

const Note = z.object({ id: z.string(), created_at: z.iso.datetime(), text: z.string(), profile_id: z.string().nullable() })
export type Note = z.output<typeof Note>

const CreateNote = z.strictObject({ text: z.string().min(1).max(1_000), profile_id: z.string().min(1).max(64).optional() })
export type CreateNote = z.output<typeof CreateNote>

const params = z.strictObject({ id: z.string().min(1) })

export const notes = {
  createNote: route({ method: 'POST', path: '/notes', id: 'createNote', group, summary: 'Keep a note', body: CreateNote, reply: json(Note, 201) }),
  listNotes: route({
    method: 'GET',
    path: '/notes',
    id: 'listNotes',
    group,
    summary: 'List notes, newest first',
    query: z.strictObject(pagingQuery),
    reply: page(Note),
  }),
  getNote: route({ method: 'GET', path: '/notes/{id}', id: 'getNote', group, summary: 'Read a note', params, reply: json(Note), faults: ['not_found'] }),
  deleteNote: route({
    method: 'DELETE',
    path: '/notes/{id}',
    id: 'deleteNote',
    group,
    summary: 'Delete a note',
    params,
    reply: none(204),
    faults: ['not_found'],
  }),
}
