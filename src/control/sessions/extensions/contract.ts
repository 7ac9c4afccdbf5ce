// The contract of the Extensions group.
import * as z from 'zod'
import { MAX_EXTENSIONS } from '../../../agent/extensions/contract.ts'
import { bytes, formParts, json, none, page, pagingQuery, route } from '../../../http/route.ts'

const group = 'Extensions'

const Time = z.iso.datetime()

export const Extension = z.object({
  id: z.string(),
  created_at: Time,
  name: z.string().nullable(),
  size_bytes: z.int(),
  /** SHA-256 of the exact bytes that were uploaded, in lower-case hex. */
  checksum: z.string(),
  /** Time of the last load into a session. */
  last_used_at: Time.nullable(),
})
export type Extension = z.output<typeof Extension>

/** One extension in the options of a new session. */
const ExtensionChoice = z
  .strictObject({ id: z.string().min(1).max(255).optional(), name: z.string().min(1).max(255).optional() })
  .refine(({ id, name }) => (id === undefined) !== (name === undefined), 'must have either an id or a name')
export type ExtensionChoice = z.output<typeof ExtensionChoice>

export const ExtensionChoices = z.array(ExtensionChoice).max(MAX_EXTENSIONS).optional()

const text = { type: 'string' } as const
/** The parts of the form, for the documentation. form.ts checks them as they arrive. */
const FORM = {
  type: 'object',
  required: ['file'],
  properties: {
    file: {
      ...text,
      format: 'binary',
      description: 'A zip of an unpacked extension, at most 50 MiB. manifest.json is at its root, or in one folder that holds everything.',
    },
    name: { ...text, description: 'Unique in the project. 1 to 255 letters, digits, dots, underscores and hyphens.' },
  },
} as const

/** A large archive over a slow connection takes long. */
const TRANSFER_MS = 600_000

const params = z.strictObject({ id_or_name: z.string().min(1) })

export const extensions = {
  uploadExtension: route({
    method: 'POST',
    path: '/extensions',
    id: 'uploadExtension',
    group,
    summary: 'Store an extension; sessions load it by its id or name',
    needsRoom: true,
    body: formParts.meta(FORM),
    bodyKind: 'form',
    maxBodyBytes: Infinity,
    reply: json(Extension, 201),
    deadlineMs: TRANSFER_MS,
    faults: ['conflict', 'unavailable'],
  }),
  listExtensions: route({
    method: 'GET',
    path: '/extensions',
    id: 'listExtensions',
    group,
    summary: 'List extensions, newest first',
    query: z.strictObject({
      ...pagingQuery,
      /** The whole name, in any case. */
      name: z.string().max(255).optional(),
      /** Part of a name, or a whole id. */
      query: z.string().max(255).optional(),
    }),
    reply: page(Extension),
  }),
  downloadFromChromeStore: route({
    method: 'GET',
    // An extension may have the same name as this route; it can be downloaded by its id.
    path: '/extensions/from_chrome_store',
    id: 'downloadFromChromeStore',
    group,
    summary: 'Download an extension from the Chrome Web Store as a zip; its signature is checked',
    query: z.strictObject({
      /** The page of the extension in the store. */
      url: z.string().min(1).max(2048),
      os: z.enum(['win', 'mac', 'linux']).default('linux'),
    }),
    reply: bytes('application/octet-stream'),
    deadlineMs: TRANSFER_MS,
    faults: ['not_found', 'bad_gateway'],
  }),
  downloadExtension: route({
    method: 'GET',
    path: '/extensions/{id_or_name}',
    id: 'downloadExtension',
    group,
    summary: 'Download an extension: the exact bytes that were uploaded',
    params,
    reply: bytes('application/octet-stream'),
    deadlineMs: TRANSFER_MS,
    faults: ['not_found', 'unavailable'],
  }),
  getExtension: route({
    method: 'GET',
    path: '/extensions/{id_or_name}/metadata',
    id: 'getExtension',
    group,
    summary: 'Get the metadata of an extension',
    params,
    reply: json(Extension),
    faults: ['not_found'],
  }),
  deleteExtension: route({
    method: 'DELETE',
    path: '/extensions/{id_or_name}',
    id: 'deleteExtension',
    group,
    summary: 'Delete an extension; sessions that have loaded it keep it',
    params,
    reply: none(),
    faults: ['not_found'],
  }),
}
