// Writes the entries of a zip below a folder.
import { mkdir, open, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import type { ZipEntry } from './zip.ts'

const DIRECTORY_MODE = 0o755
/** Files written at the same time, because creating a file waits for the disk. */
const AT_ONCE = 4

interface Writing {
  /** The mode of a file, by its mode in the zip; 0 when the zip has none. */
  fileMode: (mode: number) => number
  /** Runs `work` on an entry. It may refuse the entry before, and choose the texts of its errors. */
  each: (entry: ZipEntry, work: () => Promise<void>) => Promise<void>
}

/** Writes all entries below `root`, an empty folder. Resolves with the number of entries that are not directories. */
export async function writeEntries(entries: AsyncIterable<ZipEntry>, root: string, { fileMode, each }: Writing): Promise<number> {
  /** Writes in progress. These promises never reject; errors go to `failures`. */
  const writing = new Set<Promise<void>>()
  const failures: unknown[] = []
  let files = 0
  try {
    for await (const entry of entries) {
      const work = each(entry, () => write(entry, join(root, entry.path), fileMode))
      if (entry.kind === 'directory') {
        await work
        continue
      }
      files++
      const one = work.catch((error: unknown) => void failures.push(error)).then(() => void writing.delete(one))
      writing.add(one)
      if (writing.size >= AT_ONCE) await Promise.race(writing)
      if (failures.length > 0) throw failures[0]
    }
  } finally {
    await Promise.all(writing)
  }
  if (failures.length > 0) throw failures[0]
  return files
}

async function write(entry: ZipEntry, path: string, fileMode: Writing['fileMode']): Promise<void> {
  if (entry.kind === 'directory') return mkdir(path, { mode: DIRECTORY_MODE })
  if (entry.kind === 'link') return symlink(await entry.target(), path)
  const file = await open(path, 'wx', 0o600)
  try {
    await file.writeFile(entry.content())
    await file.chmod(fileMode(entry.mode))
  } finally {
    await file.close()
  }
}
