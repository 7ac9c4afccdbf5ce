// Unpacks the zip of an app's code into a new directory.
import { chmodSync, mkdirSync, symlinkSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { BadZip, nameTooLong, openZip, type ZipEntry, type ZipLimits } from '../base/unzip.ts'
import { BuildFailed } from './tools.ts'

export const ZIP_LIMITS: ZipLimits = { entries: 200_000, bytes: 2 * 1024 ** 3, ratio: 200, ratioFromBytes: 200 * 1024 ** 2 }
/** Nothing else runs during a build, and apps have thousands of small files. */
const RULES = { strictNames: false, anyModes: true, oneStep: 1024 * 1024 }

const DIRECTORY = 0o755
const FILE = 0o644
const EXECUTABLE = 0o111

/** Unpacks the zip `archive` into `root`, a directory that it creates. @throws BuildFailed */
export async function unpackArchive(archive: string, root: string, signal: AbortSignal, limits = ZIP_LIMITS): Promise<{ files: number; bytes: number }> {
  const file = await open(archive)
  try {
    const zip = await openZip(file, { ...RULES, limits }, signal)
    mkdirSync(root, { recursive: true, mode: DIRECTORY })
    // Created last, so that no file can be written through a link.
    const links: { path: string; target: string }[] = []
    let files = 0
    for await (const entry of zip.entries()) {
      if (entry.kind !== 'directory') files++
      if (entry.kind === 'link') links.push({ path: entry.path, target: await entry.target() })
      else await make(entry, join(root, entry.path))
    }
    for (const { path, target } of links) symlinkSync(target, join(root, path))
    return { files, bytes: zip.bytes }
  } catch (error) {
    throw error instanceof BadZip ? new BuildFailed(`the archive ${error.message}`) : error
  } finally {
    await file.close()
  }
}

async function make(entry: Exclude<ZipEntry, { kind: 'link' }>, path: string): Promise<void> {
  try {
    if (entry.kind === 'directory') return mkdirSync(path, { mode: DIRECTORY })
    const mode = entry.mode & EXECUTABLE ? DIRECTORY : FILE
    const file = await open(path, 'wx', mode)
    try {
      for await (const chunk of entry.content()) for (let at = 0; at < chunk.length;) at += (await file.write(chunk, at)).bytesWritten
    } finally {
      await file.close()
    }
    chmodSync(path, mode)
  } catch (error) {
    throw (error as NodeJS.ErrnoException).code === 'ENAMETOOLONG' ? nameTooLong(entry.name) : error
  }
}
