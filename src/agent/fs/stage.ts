// Writes files atomically: under a temporary name beside the destination, then renamed. A cancelled write leaves nothing.
import { randomBytes } from 'node:crypto'
import { addAbortListener } from 'node:events'
import { chmod, lstat, mkdir, open, readlink, realpath, rename, rm, rmdir, stat, type FileHandle } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import type { Readable } from 'node:stream'
import { Mutex } from '../../base/mutex.ts'
import { fault } from '../../http/fault.ts'
import { UNFINISHED } from './contract.ts'
import { Undo } from './undo.ts'

/** Default permissions of a file and of a directory. */
export const FILE_MODE = 0o644
export const DIRECTORY_MODE = 0o755

/** Longest chain of links; Linux has the same limit (path_resolution(7)). */
const MAX_LINKS = 40

/** A name for an unfinished file. Lists, zips and watches do not show it. */
export const temporaryName = (): string => `.cob-part-${randomBytes(12).toString('hex')}`
export const isTemporary = (name: string): boolean => UNFINISHED.test(name)

/**
 * The real path that a write to `path` changes, with links resolved, and the permissions of the existing file. @throws 400 when the path exists and
 * is not a regular file
 */
export async function placeOf(path: string, field: string): Promise<{ path: string; mode: number | undefined }> {
  let at = path
  for (let links = 0; links < MAX_LINKS; links++) {
    // A link's target is relative to the link's real folder, and ".." after a link to a folder means the parent of that folder.
    at = join(await realpath(dirname(at)).catch(orMissing(dirname(at))), basename(at))
    const stats = await lstat(at).catch(orMissing(undefined))
    if (stats === undefined) return { path: at, mode: undefined }
    if (stats.isDirectory()) throw fault.field(field, 'is a directory')
    if (stats.isFile()) return { path: at, mode: stats.mode & 0o7777 }
    if (!stats.isSymbolicLink()) throw fault.field(field, 'is not a regular file')
    const target = await readlink(at)
    at = target.startsWith('/') ? target : `${dirname(at)}/${target}`
  }
  throw fault.field(field, 'leads through too many symbolic links')
}

/** Directories created for unfinished writes, with the number of writes that need each. Changed only within {@link turns}. */
const provisional = new Map<string, number>()
/**
 * One write at a time creates or removes directories. Otherwise a write could find a directory before it is in `provisional`, and nobody would remove it in the
 * end.
 */
const turns = new Mutex()

/**
 * Creates a directory and its missing parents; true when it was missing. `undo` removes those that are still empty, once no other unfinished write
 * needs them. Does not use `mkdir` with `recursive`: below /proc that never returns (Node 24).
 */
export const makeDirectories = (dir: string, undo: Undo): Promise<boolean> => turns.run(() => makeMissing(dir, undo))

async function makeMissing(dir: string, undo: Undo): Promise<boolean> {
  const missing: string[] = []
  let at = dir
  for (; !(await isDirectory(at)); at = dirname(at)) missing.push(at)
  const below: string[] = []
  for (; provisional.has(at); at = dirname(at)) below.push(at)
  for (const path of below.toReversed()) standOn(path, undo)
  for (const path of missing.toReversed()) {
    try {
      await mkdir(path, { mode: DIRECTORY_MODE })
      provisional.set(path, 0)
    } catch (error) {
      // Another write may have created it in the meantime.
      if (codeOf(error) !== 'EEXIST' || !(await isDirectory(path))) throw error
    }
    standOn(path, undo)
  }
  return missing.length > 0
}

function standOn(path: string, undo: Undo): void {
  const standing = provisional.get(path)
  if (standing === undefined) return
  provisional.set(path, standing + 1)
  undo.defer((kept) => turns.run(() => standOff(path, kept)))
}

async function standOff(path: string, kept: boolean): Promise<void> {
  const standing = provisional.get(path)
  if (standing === undefined) return // another write that needs it has succeeded: keep the directory
  if (kept || standing === 1) provisional.delete(path)
  else provisional.set(path, standing - 1)
  if (kept || standing > 1) return
  try {
    await rmdir(path)
  } catch (error) {
    if (!['ENOTEMPTY', 'ENOENT'].includes(codeOf(error))) throw error
  }
}

/** Whether the path is a directory; false when it is missing. @throws ENOTDIR when it is anything else */
async function isDirectory(path: string): Promise<boolean> {
  try {
    if ((await stat(path)).isDirectory()) return true
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return false
    throw error
  }
  throw Object.assign(new Error(`${path} is not a directory`), { code: 'ENOTDIR' })
}

/** A substitute value for a path that does not exist; other errors are rethrown. */
const orMissing =
  <T>(instead: T) =>
  (error: unknown): T => {
    if (codeOf(error) === 'ENOENT') return instead
    throw error
  }

const codeOf = (error: unknown): string => (error as NodeJS.ErrnoException).code ?? ''

/** A temporary file in `dir` with the contents of `body`; `undo` deletes it. @throws 413 for more than `maxBytes` */
export async function stage(dir: string, body: Readable, undo: Undo, signal: AbortSignal, maxBytes = Infinity): Promise<string> {
  const path = join(dir, temporaryName())
  const handle = await open(path, 'wx', 0o600)
  undo.defer(async (kept) => (kept ? undefined : rm(path, { force: true })))
  try {
    await fill(handle, body, signal, maxBytes)
  } finally {
    await handle.close()
  }
  return path
}

/** Writes a stream to the end. When writing fails, the stream is not destroyed, so the sender can still get an answer. */
async function fill(handle: FileHandle, body: Readable, signal: AbortSignal, maxBytes: number): Promise<void> {
  signal.throwIfAborted()
  // When the sender has disconnected, only destroying the stream ends the wait.
  using _aborted = addAbortListener(signal, () => body.destroy(signal.reason as Error))
  let bytes = 0
  for await (const chunk of body.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    if ((bytes += chunk.length) > maxBytes) throw fault.tooLarge(maxBytes)
    await writeAll(handle, chunk)
  }
  signal.throwIfAborted()
}

/** A single write may write fewer bytes than it was given. */
export async function writeAll(handle: FileHandle, chunk: Buffer): Promise<void> {
  for (let at = 0; at < chunk.length;) at += (await handle.write(chunk, at)).bytesWritten
}

/** Sets a staged file's permissions and renames it into place. */
export async function settle(staged: string, place: string, mode: number): Promise<void> {
  await chmod(staged, mode)
  await rename(staged, place)
}

/** Writes `body` to `path`: readers see the old contents or all of the new. Without a mode an existing file keeps its own. */
export async function writeFile(path: string, mode: number | undefined, body: Readable, signal: AbortSignal): Promise<void> {
  await using undo = new Undo()
  const place = await placeOf(path, 'path')
  const dir = dirname(place.path)
  await makeDirectories(dir, undo)
  await settle(await stage(dir, body, undo, signal), place.path, mode ?? place.mode ?? FILE_MODE)
  undo.keep()
}
