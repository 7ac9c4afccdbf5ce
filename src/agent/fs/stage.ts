// Files that appear at once: written beside their place under a name of their own, then renamed. Whoever gives up leaves nothing.
import { randomBytes } from 'node:crypto'
import { chmod, lstat, mkdir, open, readlink, realpath, rename, rm, rmdir, stat, type FileHandle } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import type { Readable } from 'node:stream'
import { fault } from '../../http/fault.ts'
import { UNFINISHED } from './contract.ts'
import { Undo } from './undo.ts'

/** Permissions of a file and of a directory whose maker says none. */
export const FILE_MODE = 0o644
export const DIRECTORY_MODE = 0o755

/** Links followed before a path is taken for a circle; Linux has the same limit (path_resolution(7)). */
const MAX_LINKS = 40

/** A name for what is not finished. Lists, zips and watches do not show it. */
export const temporaryName = (): string => `.cob-part-${randomBytes(12).toString('hex')}`
export const isTemporary = (name: string): boolean => UNFINISHED.test(name)

/**
 * Where writing to `path` ends up, behind links, and the permissions of the file that is there.
 * @throws 400 when something other than a regular file is there
 */
export async function placeOf(path: string, field: string): Promise<{ path: string; mode: number | undefined }> {
  let at = path
  for (let links = 0; links < MAX_LINKS; links++) {
    // Links are relative to where they really are, and ".." behind a link to a folder leads out of that folder.
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

/** Directories that were made for what is not finished, and for how many such things. */
const provisional = new Map<string, number>()

/**
 * Makes a directory and the missing ones above it; true when it was not there. `undo` takes those away again that nobody has
 * put anything into, once nothing else that is not finished stands on them.
 * Not by `mkdir` with `recursive`: below /proc that runs in a circle for ever (Node 24).
 */
export async function makeDirectories(dir: string, undo: Undo): Promise<boolean> {
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
      // Somebody else may have made it by now.
      if (codeOf(error) !== 'EEXIST' || !(await isDirectory(path))) throw error
    }
    standOn(path, undo)
  }
  return missing.length > 0
}

function standOn(path: string, undo: Undo): void {
  if (!provisional.has(path)) return
  provisional.set(path, provisional.get(path)! + 1)
  undo.defer(async (kept) => {
    const standing = provisional.get(path)
    if (standing === undefined) return // somebody came to a good end with it: it stays
    if (kept || standing === 1) provisional.delete(path)
    else provisional.set(path, standing - 1)
    if (kept || standing > 1) return
    try {
      await rmdir(path)
    } catch (error) {
      if (!['ENOTEMPTY', 'ENOENT'].includes(codeOf(error))) throw error
    }
  })
}

/** False when there is nothing. @throws ENOTDIR when something else is there */
async function isDirectory(path: string): Promise<boolean> {
  try {
    if ((await stat(path)).isDirectory()) return true
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return false
    throw error
  }
  throw Object.assign(new Error(`${path} is not a directory`), { code: 'ENOTDIR' })
}

/** What stands for something that is not there; other errors stay errors. */
const orMissing =
  <T>(instead: T) =>
  (error: unknown): T => {
    if (codeOf(error) === 'ENOENT') return instead
    throw error
  }

const codeOf = (error: unknown): string => (error as NodeJS.ErrnoException).code ?? ''

/** A temporary file in `dir`, holding what `body` brings; gone when `undo` is undone. */
export async function stage(dir: string, body: Readable, undo: Undo, signal: AbortSignal): Promise<string> {
  const path = join(dir, temporaryName())
  const handle = await open(path, 'wx', 0o600)
  undo.defer(async (kept) => (kept ? undefined : rm(path, { force: true })))
  try {
    await fill(handle, body, signal)
  } finally {
    await handle.close()
  }
  return path
}

/** Writes a stream to its end. The stream is left as it is when writing fails, so that its sender can still be answered. */
async function fill(handle: FileHandle, body: Readable, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted()
  // Only this ends a wait for a sender who has gone.
  const onAbort = () => body.destroy(signal.reason as Error)
  signal.addEventListener('abort', onAbort, { once: true })
  try {
    for await (const chunk of body.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) await writeAll(handle, chunk)
    signal.throwIfAborted()
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}

/** A write may take less than it is given. */
export async function writeAll(handle: FileHandle, chunk: Buffer): Promise<void> {
  for (let at = 0; at < chunk.length;) at += (await handle.write(chunk, at)).bytesWritten
}

/** Puts a staged file into its place, with its permissions. */
export async function settle(staged: string, place: string, mode: number): Promise<void> {
  await chmod(staged, mode)
  await rename(staged, place)
}

/** Writes `body` to `path`: readers see the whole of it or what was there before. Without a mode an existing file keeps its own. */
export async function writeFile(path: string, mode: number | undefined, body: Readable, signal: AbortSignal): Promise<void> {
  await using undo = new Undo()
  const place = await placeOf(path, 'path')
  const dir = dirname(place.path)
  await makeDirectories(dir, undo)
  await settle(await stage(dir, body, undo, signal), place.path, mode ?? place.mode ?? FILE_MODE)
  undo.keep()
}
