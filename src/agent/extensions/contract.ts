// The contract of the agent's extensions tool: extensions for the browser of a running session. And the limits on their archives.
import { z } from 'zod'
import { isId } from '../../base/ids.ts'

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
