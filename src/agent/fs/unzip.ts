// Unpacks a zip into a temporary directory beside the destination, then moves the result in.
import { lstat, mkdir, open, readdir, rename, rm, symlink, type FileHandle } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { BadZip, openZip, type ZipEntry, type ZipLimits } from '../../base/unzip.ts'
import { fault } from '../../http/fault.ts'
import { onPath } from './faults.ts'
import { DIRECTORY_MODE, FILE_MODE, isTemporary, makeDirectories, temporaryName, writeAll } from './stage.ts'
import { Undo } from './undo.ts'

export const ZIP_LIMITS: ZipLimits = { entries: 100_000, bytes: 4 * 1024 ** 3, ratio: 200, ratioFromBytes: 100 * 1024 ** 2 }
/** The agent serves other calls meanwhile: one step takes a few milliseconds at most. */
const RULES = { strictNames: true, anyModes: false, oneStep: 64 * 1024 }

/** Files written at the same time, because creating a file waits for the disk. */
const AT_ONCE = 4

/**
 * Unpacks the zip at `archive` into the directory `destination`, which is created when missing; existing files are replaced. When the zip is refused
 * or unpacking fails, nothing changes. Only a disk failure during the final move can leave a part of it.
 */
export async function unzip(archive: string, destination: string, signal: AbortSignal, limits: ZipLimits = ZIP_LIMITS): Promise<void> {
  await using undo = new Undo()
  const isNew = await onPath('dest_path', destination, () => makeDirectories(destination, undo))
  const staging = join(isNew ? dirname(destination) : destination, temporaryName())
  await onPath('dest_path', destination, () => mkdir(staging, { mode: DIRECTORY_MODE }))
  undo.defer(async (kept) => (kept ? undefined : rm(staging, { recursive: true, force: true })))
  const handle = await open(archive)
  try {
    await unpack(handle, staging, limits, 'zip_file', signal)
  } finally {
    await handle.close()
  }
  signal.throwIfAborted()
  await onPath('dest_path', destination, async () => {
    await checkFit(staging, destination)
    if (isNew) await rename(staging, destination)
    else {
      await moveIn(staging, destination)
      await rm(staging, { recursive: true })
    }
  })
  undo.keep()
}

/** Unpacks every entry below the directory `root`. @throws 400 that names `field` */
export async function unpack(file: FileHandle, root: string, limits: ZipLimits, field: string, signal: AbortSignal): Promise<void> {
  /** Writes in progress. These promises never reject; errors go to `failures`. */
  const writing = new Set<Promise<void>>()
  const failures: unknown[] = []
  const beside = async (work: Promise<void>) => {
    const write = work.catch((error: unknown) => void failures.push(error)).then(() => void writing.delete(write))
    writing.add(write)
    if (writing.size >= AT_ONCE) await Promise.race(writing)
    if (failures.length > 0) throw failures[0]
  }
  try {
    try {
      for await (const entry of (await openZip(file, { ...RULES, limits }, signal)).entries()) {
        if (isTemporary(basename(entry.path))) throw new BadZip(`has the name "${entry.name}", which is reserved for unfinished files`)
        const made = onPath(field, entry.name, () => make(entry, join(root, entry.path)))
        await (entry.kind === 'directory' ? made : beside(made))
      }
    } finally {
      await Promise.all(writing)
    }
    if (failures.length > 0) throw failures[0]
  } catch (error) {
    throw error instanceof BadZip ? fault.field(field, error.message) : error
  }
}

async function make(entry: ZipEntry, path: string): Promise<void> {
  if (entry.kind === 'directory') return mkdir(path, { mode: DIRECTORY_MODE })
  if (entry.kind === 'link') return symlink(await entry.target(), path)
  const file = await open(path, 'wx', 0o600)
  try {
    for await (const chunk of entry.content()) await writeAll(file, chunk)
    await file.chmod(entry.mode || FILE_MODE)
  } finally {
    await file.close()
  }
}

/** @throws 400 when a directory of the tree would replace a file, or the other way round */
async function checkFit(from: string, to: string): Promise<void> {
  for (const entry of await readdir(from, { withFileTypes: true })) {
    const place = join(to, entry.name)
    const there = await lstat(place).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return undefined
      throw error
    })
    if (there === undefined) continue
    if (entry.isDirectory() !== there.isDirectory())
      throw fault.field('dest_path', `"${place}" is ${there.isDirectory() ? 'a directory, but not in the zip' : 'not a directory, but is one in the zip'}`)
    if (entry.isDirectory()) await checkFit(join(from, entry.name), place)
  }
}

/** Moves the contents of one directory into another, merging directories that exist in both. */
async function moveIn(from: string, to: string): Promise<void> {
  for (const entry of await readdir(from, { withFileTypes: true })) {
    const [source, place] = [join(from, entry.name), join(to, entry.name)]
    try {
      await rename(source, place)
    } catch (error) {
      if (!entry.isDirectory() || !['ENOTEMPTY', 'EEXIST'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error
      await moveIn(source, place)
    }
  }
}
