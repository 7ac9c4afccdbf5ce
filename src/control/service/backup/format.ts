// What a backup is: one tar file, and the names and order of what is in it.
//   cob-backup.json         says that it is one, and of which format
//   rows/<table>/<n>.zst    rows as COPY writes them, in pieces
//   spool/<id>              recordings that are not stored yet
//   keys/<file>             with --with-keys
//   objects/<key>
//   checksums/<n>           the SHA-256 of each entry before it, as sha256sum writes them; between the others
//   manifest.json           the last one; a file without it was not completed
import { createHash } from 'node:crypto'
import { z } from 'zod'

/** A change that an older command could not read makes it greater. */
export const FORMAT = 1

export const HEAD = 'cob-backup.json'
export const MANIFEST = 'manifest.json'
export const ROWS = 'rows/'
export const SPOOL = 'spool/'
export const KEYS = 'keys/'
export const OBJECTS = 'objects/'
export const CHECKSUMS = 'checksums/'

/** The files of keys that a backup may have, by their names in the data directory. */
export const KEY_FILES = ['secret-key', 'sealing-keys', 'api-key'] as const

/** Limits on what is read into memory of a file that may be anything. */
export const MAX_HEAD_BYTES = 64 * 1024
export const MAX_MANIFEST_BYTES = 64 * 1024 * 1024
export const MAX_PIECE_BYTES = 64 * 1024 * 1024

export const Head = z.object({ format: z.number().int(), id: z.string().regex(/^[a-z0-9]{24}$/), made_at: z.iso.datetime(), version: z.string() })
export type Head = z.output<typeof Head>

export const Manifest = z.object({
  ...Head.shape,
  /** The scope of the service that was backed up, and all scopes that its database has. */
  scope: z.string().min(1),
  scopes: z.array(z.string().min(1)),
  migrations: z.array(z.string()).min(1),
  tables: z.array(z.object({ name: z.string(), columns: z.array(z.string()).min(1), shape: z.string(), rows: z.number().int(), checksum: z.string() })),
  sequences: z.array(z.object({ name: z.string(), next: z.string().regex(/^-?\d+$/) })),
  /** The first segments of the keys that objects may have. */
  kinds: z.array(z.string()),
  objects: z.object({ count: z.number().int(), bytes: z.number().int() }),
  /** Objects that rows name and that were gone before; the first ones by name. */
  missing: z.object({ count: z.number().int(), keys: z.array(z.string()) }),
  recordings: z.number().int(),
  keys: z.array(z.enum(KEY_FILES)),
  /** Of every list of checksums. */
  checksums: z.array(z.object({ name: z.string(), sha256: z.string() })),
  entries: z.number().int(),
})
export type Manifest = z.output<typeof Manifest>

export const sha256 = (bytes: Uint8Array | string): string => createHash('sha256').update(bytes).digest('hex')

/** The manifest as text, which begins with the checksum of the rest. */
export function manifestText(manifest: Manifest): string {
  const text = JSON.stringify(manifest)
  return `${sha256(text)}\n${text}\n`
}

/** @throws when the text is not what {@link manifestText} has written */
export function readManifest(text: string): Manifest {
  const [sum, body] = text.split('\n')
  if (sum === undefined || body === undefined || sha256(body) !== sum) throw new Error('its manifest is damaged')
  return Manifest.parse(JSON.parse(body))
}

export const megabytes = (bytes: number): string => `${(bytes / 1_000_000).toFixed(1)} MB`

export const counted = (count: number, one: string, many = `${one}s`): string => `${count} ${count === 1 ? one : many}`

/** Leaves out lines that come sooner after the one before. */
export function atMostEvery(ms: number, tell: (line: string) => void): (line: string) => void {
  let last = -Infinity
  return (line) => {
    if (performance.now() - last < ms) return
    last = performance.now()
    tell(line)
  }
}
