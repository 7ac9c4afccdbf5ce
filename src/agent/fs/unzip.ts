// Unpacks a zip into a temporary directory beside the destination, then moves the result in.
import { lstat, mkdir, open, readdir, rename, rm, type FileHandle } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { BadArchive, type ArchiveLimits } from '../../base/archive/contents.ts'
import { writeEntries } from '../../base/archive/folder.ts'
import { fileSource, openZip } from '../../base/archive/zip.ts'
import { fault } from '../../http/fault.ts'
import { onPath } from './faults.ts'
import { DIRECTORY_MODE, FILE_MODE, isTemporary, makeDirectories, temporaryName } from './stage.ts'
import { Undo } from './undo.ts'

export const ZIP_LIMITS: ArchiveLimits = { entries: 100_000, bytes: 4 * 1024 ** 3, ratio: 200, ratioFromBytes: 100 * 1024 ** 2 }
/** The agent serves other calls meanwhile: one step takes a few milliseconds at most. */
const RULES = { strictNames: true, anyModes: false, oneStep: 64 * 1024 }

/**
 * Unpacks the zip at `archive` into the directory `destination`, which is created when missing; existing files are replaced. When the zip is refused
 * or unpacking fails, nothing changes. Only a disk failure during the final move can leave a part of it.
 */
export async function unzip(archive: string, destination: string, signal: AbortSignal, limits: ArchiveLimits = ZIP_LIMITS): Promise<void> {
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
export async function unpack(file: FileHandle, root: string, limits: ArchiveLimits, field: string, signal: AbortSignal): Promise<void> {
  try {
    const zip = await openZip(await fileSource(file), { ...RULES, limits }, signal)
    await writeEntries(zip.entries(), root, {
      fileMode: (mode) => mode || FILE_MODE,
      async each(entry, work) {
        if (isTemporary(basename(entry.path))) throw new BadArchive(`has the name "${entry.name}", which is reserved for unfinished files`)
        await onPath(field, entry.name, work)
      },
    })
  } catch (error) {
    throw error instanceof BadArchive ? fault.field(field, error.message) : error
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
