// The contract of the agent's extensions tool: extensions for the browser of a running session. And the limits on their archives.
import * as z from 'zod'
import { isId } from '../../base/ids.ts'
import { byteStream, formParts, none, route } from '../../http/route.ts'

/** Most extensions of one call, and of one create. */
export const MAX_EXTENSIONS = 20

/** The largest archive of an extension. */
export const MAX_EXTENSION_BYTES = 50 * 1024 * 1024

/** Where extensions are in a session. Users of the original depend on this path. */
export const EXTENSIONS_DIR = '/home/kernel/extensions'

/** The name of an extension, and of its folder below {@link EXTENSIONS_DIR}. */
export const ExtensionName = z
  .string()
  .regex(/^[A-Za-z0-9._-]{1,255}$/, 'must have 1 to 255 letters, digits, dots, underscores and hyphens')
  .refine((name) => !/^\.+$/.test(name) && !name.startsWith('.cob-part-'), 'is reserved')

/** The name of a stored extension. No name is the id of another one. */
export const StoredName = ExtensionName.refine((name) => !isId(name.toLowerCase()), 'must not look like an id (24 letters and digits)')

const FORM = {
  type: 'object',
  properties: {
    'extensions[0][name]': { type: 'string', description: `The name of its folder below ${EXTENSIONS_DIR}.` },
    'extensions[0][zip_file]': { type: 'string', format: 'binary', description: 'A zip of an unpacked extension, at most 50 MiB.' },
  },
} as const

/** A form with the most and the largest archives, and its overhead. */
const MAX_FORM_BYTES = MAX_EXTENSIONS * MAX_EXTENSION_BYTES + 1024 * 1024
const UPLOAD_MS = 600_000

export const extensions = {
  loadExtensions: route({
    method: 'POST',
    path: '/extensions',
    id: 'loadExtensions',
    group: 'Browsers',
    summary: 'Load extensions into the running browser; they are active on the next page',
    body: formParts.meta(FORM),
    bodyKind: 'form',
    maxBodyBytes: MAX_FORM_BYTES,
    reply: none(201),
    deadlineMs: UPLOAD_MS,
  }),
}

/** For the control plane only: unpacks an archive; the next fit that names it loads it. */
export const extensionStaging = {
  stageExtension: route({
    method: 'POST',
    path: '/extensions/staged',
    id: 'stageExtension',
    group: 'Agent',
    summary: 'Unpack an extension',
    query: z.strictObject({ name: ExtensionName }),
    body: byteStream,
    bodyKind: 'bytes',
    maxBodyBytes: MAX_EXTENSION_BYTES,
    reply: none(),
  }),
}
