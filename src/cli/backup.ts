// `cob backup` and `cob restore`: the place of a backup, and the messages for people.
import { once } from 'node:events'
import { createWriteStream, existsSync, statSync } from 'node:fs'
import { open, rename, rm } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import type { Config } from '../base/config.ts'
import { Unavailable } from '../base/unavailable.ts'
import { within } from '../base/wait.ts'
import { backup, remarks } from '../control/service/backup/backup.ts'
import { restore } from '../control/service/backup/restore.ts'
import { withDatabase } from '../control/service/with-database.ts'
import { stopSignal } from './stop-signal.ts'

/** Limit on closing the file: a disk may have gigabytes to write. */
const CLOSE_MS = 600_000

const tell = (line: string): void => void process.stderr.write(`cob: ${line}\n`)

/** The name of the file in a folder: it sorts by time. */
const nameAt = (date: Date): string => `cob-backup-${date.toISOString().slice(0, 19).replaceAll(':', '')}Z.tar`

/** The message for callers names no host. The person at this machine may read the cause. */
const inFull = (error: unknown): never => {
  throw error instanceof Unavailable && error.cause ? error.cause : error
}

/** Writes a backup into `target`: a file, a folder, or `-` for standard output. A file appears under its name only when it is complete. */
export async function writeBackup(config: Config, target: string, { withKeys = false }: { withKeys?: boolean }): Promise<void> {
  // All groups: a restore starts without them.
  const { objectOwners } = await import('../control/modules.ts')
  const signal = stopSignal()
  const toPipe = target === '-'
  if (toPipe && process.stdout.isTTY) throw new Error('a backup is a tar file, which a terminal cannot show: give a file or folder, or redirect the output')
  const file = toPipe ? undefined : fileFor(target)
  await withDatabase(config, signal, async (db, paths, address) => {
    await using opened = new AsyncDisposableStack()
    const part = file && `${file}.part`
    if (part) opened.defer(() => rm(part, { force: true }))
    // The file is on the disk when it is closed.
    const output = part ? createWriteStream(part, { mode: 0o600, flush: true }) : process.stdout
    const closed = once(output, 'close')
    closed.catch(() => {}) // the backup fails as well
    const manifest = await backup({ config, paths, db, address, output, objectOwners, withKeys, tell, signal })
    if (file && part) {
      await within('the disk to have the backup', CLOSE_MS, closed, signal)
      await rename(part, file)
      await syncFolder(dirname(file))
    }
    for (const line of remarks(manifest, config, paths)) tell(line)
    tell(toPipe ? 'the backup is complete' : `the backup is complete: ${file}`)
  }).catch(inFull)
}

/** @throws when there is such a file already, or no such folder */
function fileFor(target: string): string {
  const isFolder = target.endsWith('/') || (existsSync(target) && statSync(target).isDirectory())
  const file = resolve(isFolder ? join(target, nameAt(new Date())) : target)
  if (!existsSync(dirname(file))) throw new Error(`there is no folder ${dirname(file)}`)
  if (existsSync(file)) throw new Error(`${file} is there already; give another name, or a folder`)
  return file
}

async function syncFolder(path: string): Promise<void> {
  await using folder = await open(path, 'r')
  await folder.sync()
}

/** Restores a backup into the places that the settings name. */
export async function readBackup(config: Config, file: string, { sameScope = false }: { sameScope?: boolean }): Promise<void> {
  if (file === '-') throw new Error('a backup is read several times, so it must be a file: store it first')
  if (!existsSync(file) || !statSync(file).isFile()) throw new Error(`there is no file ${resolve(file)}`)
  const say = (line: string) => void process.stdout.write(`${line}\n`)
  await restore({ config, file: resolve(file), sameScope, say, tell, signal: stopSignal() }).catch(inFull)
}
