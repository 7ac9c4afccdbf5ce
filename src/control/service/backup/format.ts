// The format of a backup: one tar file with these entries in this order.
//   cob-backup.json         marks the file as a backup, with its format
//   rows/<table>/<n>.zst    rows as COPY writes them, in pieces
//   spool/<id>              recordings that are not stored yet
//   keys/<file>             with --with-keys
//   objects/<key>
//   checksums/<n>           the SHA-256 of each entry before it, as sha256sum writes them; between the others
//   manifest.json           the last entry; a file without it is incomplete
import { createHash } from 'node:crypto'
import * as z from 'zod'

/** Increase it with a change that an older command could not read. */
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

/** Limits on data that is read into memory, because the file may be anything. */
export const MAX_HEAD_BYTES = 64 * 1024
export const MAX_MANIFEST_BYTES = 64 * 1024 * 1024
export const MAX_PIECE_BYTES = 64 * 1024 * 1024

export const Head = z.object({ format: z.number().int(), id: z.string().regex(/^[a-z0-9]{24}$/), made_at: z.iso.datetime(), version: z.string() })
export type Head = z.output<typeof Head>

export const Manifest = z.object({
  ...Head.shape,
  /** The scope of the service that was backed up, and all scopes in its database. */
  scope: z.string().min(1),
  scopes: z.array(z.string().min(1)),
  migrations: z.array(z.string()).min(1),
  tables: z.array(z.object({ name: z.string(), columns: z.array(z.string()).min(1), shape: z.string(), rows: z.number().int(), checksum: z.string() })),
  sequences: z.array(z.object({ name: z.string(), next: z.string().regex(/^-?\d+$/) })),
  /** The first segments of the keys that objects may have. */
  kinds: z.array(z.string()),
  objects: z.object({ count: z.number().int(), bytes: z.number().int() }),
  /** Missing objects that rows name; the first ones by name. */
  missing: z.object({ count: z.number().int(), keys: z.array(z.string()) }),
  recordings: z.number().int(),
  keys: z.array(z.enum(KEY_FILES)),
  /** The checksum of every list of checksums. */
  checksums: z.array(z.object({ name: z.string(), sha256: z.string() })),
  entries: z.number().int(),
})
export type Manifest = z.output<typeof Manifest>

export const sha256 = (bytes: Uint8Array | string): string => createHash('sha256').update(bytes).digest('hex')

/** The manifest as text. Its first line is the checksum of the rest. */
export function manifestText(manifest: Manifest): string {
  const text = JSON.stringify(manifest)
  return `${sha256(text)}\n${text}\n`
}

/** @throws when {@link manifestText} has not written the text */
export function readManifest(text: string): Manifest {
  const [sum, body] = text.split('\n')
  if (sum === undefined || body === undefined || sha256(body) !== sum) throw new Error('its manifest is damaged')
  return Manifest.parse(JSON.parse(body))
}

export const megabytes = (bytes: number): string => `${(bytes / 1_000_000).toFixed(1)} MB`

export const counted = (count: number, one: string, many = `${one}s`): string => `${count} ${count === 1 ? one : many}`

/** The numbers that are not 0, each with its word, in one text. */
export const listed = (...counts: Parameters<typeof counted>[]): string =>
  counts
    .filter(([count]) => count > 0)
    .map((of) => counted(...of))
    .join(', ')

/** Drops lines that follow the previous one too soon. */
export function atMostEvery(ms: number, tell: (line: string) => void): (line: string) => void {
  let last = -Infinity
  return (line) => {
    if (performance.now() - last < ms) return
    last = performance.now()
    tell(line)
  }
}
