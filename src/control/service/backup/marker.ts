// The mark of a data directory whose restore is not complete: no service may start with it, and only the same restore goes on with it.
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { flushFolder } from '../../../base/flush-folder.ts'

const FILE = 'restoring'

const Marker = z.object({
  /** The id of the backup. */
  backup: z.string(),
  scope: z.string(),
  /** When the restored database counts as made, which names it as the owner of a bucket. */
  made_at: z.iso.datetime(),
})
export type Marker = z.output<typeof Marker>

/** The mark of this data directory; undefined when it has none. */
export function readMarker(dataDir: string): Marker | undefined {
  const file = join(dataDir, FILE)
  return existsSync(file) ? Marker.parse(JSON.parse(readFileSync(file, 'utf8'))) : undefined
}

/** When this returns, it is on the disk: nothing else may be there before it. */
export function writeMarker(dataDir: string, marker: Marker): void {
  mkdirSync(dataDir, { recursive: true, mode: 0o700 })
  const file = join(dataDir, FILE)
  writeFileSync(`${file}.new`, `${JSON.stringify(marker)}\n`, { mode: 0o600, flush: true })
  renameSync(`${file}.new`, file)
  flushFolder(dataDir)
}

export const removeMarker = (dataDir: string): void => rmSync(join(dataDir, FILE), { force: true })

/** Names in a data directory that are the mark's. */
export const isMarker = (name: string): boolean => name === FILE || name === `${FILE}.new`

/** @throws when a restore into this data directory has not been completed */
export function assertRestored(dataDir: string): void {
  if (readMarker(dataDir)) throw new Error(`a restore into ${dataDir} was not completed: run "cob restore" again with the same backup, or remove the folder`)
}
