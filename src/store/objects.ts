// Objects: archives, recordings, and other content that is too large for a row. They are files in the data directory; an S3 store would replace
// this module.
import { createHash } from 'node:crypto'
import { constants, createReadStream } from 'node:fs'
import { mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Readable } from 'node:stream'

export interface Stored {
  bytes: number
  /** Lower-case hex. */
  sha256: string
}

export interface Objects {
  /**
   * Stores what `content` yields under `key` (segments of letters, digits, `.`, `_`, `-`, joined by `/`), whole or not at all. Write under a
   * fresh key, then commit the row that names it. @throws TooLarge, or what the content throws.
   */
  put(key: string, content: AsyncIterable<Uint8Array>, limits: { maxBytes: number }, signal: AbortSignal): Promise<Stored>
  /** The object's bytes, or those of a range (`end` included); undefined when the key does not exist. */
  get(key: string, range?: { start: number; end: number }): Promise<{ bytes: number; content: Readable } | undefined>
  /**
   * Appends to an object; the first bytes create it. The bytes go to offset `at`, which is the object's length so far. When it throws, the object
   * has its old length. Appended bytes survive the end of this process at once, and the end of the machine after `sync`.
   */
  append(key: string, at: number, content: Uint8Array): Promise<void>
  sync(key: string): Promise<void>
  /** The length of an object; 0 when the key does not exist. */
  size(key: string): Promise<number>
  /** Removes an object. A missing one is no error. */
  remove(key: string): Promise<void>
  /** The keys below `prefix` (one segment), and after a crash those of objects that were not written to their end. */
  list(prefix: string): Promise<string[]>
}

export class TooLarge extends Error {
  constructor(maxBytes: number) {
    super(`more than ${maxBytes} bytes`)
    this.name = 'TooLarge'
  }
}

const KEY = /^[\w-][\w.-]*(\/[\w-][\w.-]*)*$/

/** Objects as files below `dir`. */
export function fileObjects(dir: string): Objects {
  const pathOf = (key: string) => {
    if (!KEY.test(key)) throw new Error(`not an object's key: ${key}`)
    return join(dir, key)
  }
  return {
    async put(key, content, { maxBytes }, signal) {
      const path = pathOf(key)
      await mkdir(dirname(path), { recursive: true, mode: 0o700 })
      const file = await open(`${path}.new`, 'w', 0o600)
      const hash = createHash('sha256')
      let bytes = 0
      try {
        for await (const chunk of content) {
          signal.throwIfAborted()
          bytes += chunk.length
          if (bytes > maxBytes) throw new TooLarge(maxBytes)
          hash.update(chunk)
          for (let at = 0; at < chunk.length;) at += (await file.write(chunk, at)).bytesWritten
        }
        signal.throwIfAborted()
        await file.sync()
        await file.close()
        await rename(`${path}.new`, path)
        // The name, too, has to survive the end of the machine.
        await using folder = await open(dirname(path), 'r')
        await folder.sync()
      } catch (error) {
        await file.close().catch(() => {})
        await rm(`${path}.new`, { force: true })
        throw error
      }
      return { bytes, sha256: hash.digest('hex') }
    },
    async get(key, range) {
      const path = pathOf(key)
      const size = await stat(path).then(
        (found) => found.size,
        (error: NodeJS.ErrnoException) => {
          if (error.code === 'ENOENT') return undefined
          throw error
        },
      )
      if (size === undefined) return undefined
      const { start, end } = range ?? { start: 0, end: size - 1 }
      return { bytes: size, content: createReadStream(path, size === 0 ? {} : { start, end }) }
    },
    async append(key, at, content) {
      const path = pathOf(key)
      if (at === 0) await mkdir(dirname(path), { recursive: true, mode: 0o700 })
      const file = await open(path, constants.O_WRONLY | (at === 0 ? constants.O_CREAT : 0), 0o600)
      try {
        for (let done = 0; done < content.length;) done += (await file.write(content, done, content.length - done, at + done)).bytesWritten
      } catch (error) {
        await file.truncate(at)
        throw error
      } finally {
        await file.close()
      }
    },
    async sync(key) {
      const file = await open(pathOf(key), 'r')
      await file.datasync().finally(() => file.close())
    },
    size: (key) =>
      stat(pathOf(key)).then(
        (found) => found.size,
        (error: NodeJS.ErrnoException) => {
          if (error.code === 'ENOENT') return 0
          throw error
        },
      ),
    remove: (key) => rm(pathOf(key), { force: true }),
    list: (prefix) =>
      readdir(pathOf(prefix)).then(
        (names) => names.map((name) => `${prefix}/${name}`).filter((key) => KEY.test(key)),
        (error: NodeJS.ErrnoException) => {
          if (error.code === 'ENOENT') return []
          throw error
        },
      ),
  }
}
