// Objects as files below a folder. A file appears under its key only when it is complete and on the disk.
import { randomUUID } from 'node:crypto'
import { createReadStream, type Dir } from 'node:fs'
import { link, mkdir, open, opendir, rename, rm, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { assertKey, isKey, measured, PUT_MS, type Listed, type Objects } from './objects.ts'

/** Files that are being written. No key begins with a dot, so this is never an object's folder. */
const STAGE = '.new'
/** The errors of `link` where it cannot link: other file systems, file systems without links, and the limit on links of one file. */
const CANNOT_LINK = ['EXDEV', 'EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK']

/** Objects as files below `dir`. */
export function fileObjects(dir: string): Objects {
  const pathOf = (key: string) => {
    assertKey(key)
    return join(dir, key)
  }
  const objects: Objects = {
    async put(key, content, { maxBytes }, signal) {
      const path = pathOf(key)
      const limited = AbortSignal.any([signal, AbortSignal.timeout(PUT_MS)])
      for (const folder of [dirname(path), join(dir, STAGE)]) await mkdir(folder, { recursive: true, mode: 0o700 })
      const staged = join(dir, STAGE, randomUUID())
      const file = await open(staged, 'wx', 0o600)
      const { chunks, stored } = measured(content, maxBytes, limited)
      try {
        for await (const chunk of chunks) for (let at = 0; at < chunk.length;) at += (await file.write(chunk, at)).bytesWritten
        await file.sync()
        await file.close()
        await rename(staged, path)
        await syncFolder(dirname(path))
      } catch (error) {
        await file.close().catch(() => {})
        await rm(staged, { force: true })
        throw error
      }
      return stored()
    },
    async putFile(key, source, signal) {
      const path = pathOf(key)
      signal.throwIfAborted()
      await mkdir(dirname(path), { recursive: true, mode: 0o700 })
      {
        await using file = await open(source, 'r')
        await file.datasync()
      }
      try {
        // A second name for the same bytes: nothing is copied, and the source stays until its owner removes it.
        await link(source, path)
      } catch (error) {
        if (!CANNOT_LINK.includes((error as NodeJS.ErrnoException).code ?? '')) throw error
        await objects.put(key, createReadStream(source), { maxBytes: Infinity }, signal)
      }
      await syncFolder(dirname(path))
    },
    async get(key, range) {
      const path = pathOf(key)
      // Opened here and not by the stream: a stream that is destroyed before it has opened reports a missing file to nobody.
      const file = await unlessGone(open(path, 'r'))
      if (!file) return undefined
      try {
        const { size } = await file.stat()
        const { start, end } = range ?? { start: 0, end: size - 1 }
        return { bytes: size, content: file.createReadStream(size === 0 ? {} : { start, end }) }
      } catch (error) {
        await file.close()
        throw error
      }
    },
    async *list(prefix, signal) {
      const folder = await unlessGone(opendir(pathOf(prefix)))
      if (folder) yield* below(folder, prefix, signal)
    },
    delete: (key) => rm(pathOf(key), { force: true }),
    async dropUnfinished(before, signal) {
      const folder = await unlessGone(opendir(join(dir, STAGE)))
      if (!folder) return
      for await (const { name } of folder) {
        signal.throwIfAborted()
        const path = join(dir, STAGE, name)
        const found = await unlessGone(stat(path))
        if (found && found.ctime < before) await rm(path, { force: true })
      }
    },
    [Symbol.dispose]() {}, // nothing stays open between calls
  }
  return objects
}

/** Reads a folder step by step, so that a folder of any size takes little memory. */
async function* below(folder: Dir, prefix: string, signal: AbortSignal): AsyncGenerator<Listed> {
  for await (const entry of folder) {
    signal.throwIfAborted()
    const key = `${prefix}/${entry.name}`
    if (!isKey(key)) continue
    const path = join(folder.path, entry.name)
    if (entry.isDirectory()) {
      const inner = await unlessGone(opendir(path))
      if (inner) yield* below(inner, key, signal)
      continue
    }
    const found = await unlessGone(stat(path))
    // The change time: a link to an old file is a new object.
    if (found?.isFile()) yield { key, bytes: found.size, modified: found.ctime }
  }
}

/** The file's name must be durable, too. */
async function syncFolder(path: string): Promise<void> {
  await using folder = await open(path, 'r')
  await folder.sync()
}

const unlessGone = <T>(work: Promise<T>): Promise<T | undefined> =>
  work.catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined
    throw error
  })
