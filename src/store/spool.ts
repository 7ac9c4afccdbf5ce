// The spool: files that grow in the data directory until they are complete, and then become objects. Only this process writes to them.
import { constants, createReadStream, type Dirent } from 'node:fs'
import { mkdir, open, readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'

export interface Spool {
  /**
   * Appends to a file; the first bytes create it. The bytes go to offset `at`, which is the file's present length. When it throws, the file has its old length.
   * Appended bytes survive the end of this process at once, and the end of the machine after `sync`.
   */
  append(name: string, at: number, content: Uint8Array): Promise<void>
  sync(name: string): Promise<void>
  /** The bytes so far; undefined when there is no such file. */
  read(name: string): Promise<Readable | undefined>
  /** The path of a file, for {@link Objects.putFile}. */
  path(name: string): string
  /** Removes a file. A missing one is no error. */
  remove(name: string): Promise<void>
  /** The names of all files of the spool. Other entries of the folder, such as `lost+found` of a file system, are not listed. */
  list(): Promise<string[]>
}

const NAME = /^[\w-][\w.-]*$/

/** A spool in the folder `dir`, which is created with the first file. */
export function makeSpool(dir: string): Spool {
  const path = (name: string) => {
    if (!NAME.test(name)) throw new Error(`not the name of a file in the spool: ${name}`)
    return join(dir, name)
  }
  return {
    path,
    async append(name, at, content) {
      if (at === 0) await mkdir(dir, { recursive: true, mode: 0o700 })
      const file = await open(path(name), constants.O_WRONLY | (at === 0 ? constants.O_CREAT : 0), 0o600)
      try {
        for (let done = 0; done < content.length;) done += (await file.write(content, done, content.length - done, at + done)).bytesWritten
      } catch (error) {
        await file.truncate(at)
        throw error
      } finally {
        await file.close()
      }
    },
    async sync(name) {
      await using file = await open(path(name), 'r')
      await file.datasync()
    },
    read: (name) => exists(path(name)).then((isThere) => (isThere ? createReadStream(path(name)) : undefined)),
    remove: (name) => rm(path(name), { force: true }),
    list: async () => (await entries()).filter((entry) => entry.isFile() && NAME.test(entry.name)).map(({ name }) => name),
  }
  function entries(): Promise<Dirent[]> {
    return readdir(dir, { withFileTypes: true }).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return []
      throw error
    })
  }
}

const exists = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return false
      throw error
    },
  )
