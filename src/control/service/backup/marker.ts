// Marks a data directory with an incomplete restore: no service may start with it, and only the same restore can continue.
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import * as z from 'zod'
import { flushFolder } from '../../../base/flush-folder.ts'

const FILE = 'restoring'

const Marker = z.object({
  /** The id of the backup. */
  backup: z.string(),
  scope: z.string(),
  /** Creation time of the restored database. With it, the database is named as the owner of a bucket. */
  made_at: z.iso.datetime(),
})
export type Marker = z.output<typeof Marker>

/** The mark of this data directory; undefined when it has none. */
export function readMarker(dataDir: string): Marker | undefined {
  const file = join(dataDir, FILE)
  return existsSync(file) ? Marker.parse(JSON.parse(readFileSync(file, 'utf8'))) : undefined
}

/** The mark is synced to the disk when this returns: nothing else may be written before it. */
export function writeMarker(dataDir: string, marker: Marker): void {
  mkdirSync(dataDir, { recursive: true, mode: 0o700 })
  const file = join(dataDir, FILE)
  writeFileSync(`${file}.new`, `${JSON.stringify(marker)}\n`, { mode: 0o600, flush: true })
  renameSync(`${file}.new`, file)
  flushFolder(dataDir)
}

export const removeMarker = (dataDir: string): void => rmSync(join(dataDir, FILE), { force: true })

/** Whether a file in a data directory is the mark. */
export const isMarker = (name: string): boolean => name === FILE || name === `${FILE}.new`

/** @throws when a restore into this data directory has not been completed */
export function assertRestored(dataDir: string): void {
  if (readMarker(dataDir)) throw new Error(`a restore into ${dataDir} was not completed: run "cob restore" again with the same backup, or remove the folder`)
}
