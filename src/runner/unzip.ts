// Unpacks the zip of an app's code into a new directory.
import { mkdirSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { BadArchive, type ArchiveLimits } from '../base/archive/contents.ts'
import { writeEntries } from '../base/archive/folder.ts'
import { fileSource, openZip } from '../base/archive/zip.ts'
import { BuildFailed } from './tools.ts'

export const ZIP_LIMITS: ArchiveLimits = { entries: 200_000, bytes: 2 * 1024 ** 3, ratio: 200, ratioFromBytes: 200 * 1024 ** 2 }
/** Nothing else runs during a build, and apps have thousands of small files. */
const RULES = { strictNames: false, anyModes: true, oneStep: 1024 * 1024 }

const DIRECTORY = 0o755
const FILE = 0o644
const EXECUTABLE = 0o111

/** Unpacks the zip `archive` into `root`, a directory that it creates. @throws BuildFailed */
export async function unpackArchive(archive: string, root: string, signal: AbortSignal, limits = ZIP_LIMITS): Promise<{ files: number; bytes: number }> {
  const file = await open(archive)
  try {
    const zip = await openZip(await fileSource(file), { ...RULES, limits }, signal)
    mkdirSync(root, { recursive: true, mode: DIRECTORY })
    const fileMode = (mode: number) => (mode & EXECUTABLE ? DIRECTORY : FILE)
    const files = await writeEntries(zip.entries(), root, { fileMode, each: (_, work) => work() })
    return { files, bytes: zip.bytes }
  } catch (error) {
    throw error instanceof BadArchive ? new BuildFailed(`the archive ${error.message}`) : error
  } finally {
    await file.close()
  }
}
