// Streams a directory as a zip. Only the list of entries is held in memory.
import type { Dirent, Stats } from 'node:fs'
import { lstat, readdir, readlink } from 'node:fs/promises'
import { pipeline, Transform, type PassThrough, Readable, type TransformCallback } from 'node:stream'
import { ZipFile } from 'yazl'
import { Gathered } from '../../base/gathered.ts'
import { abortable } from '../../base/wait.ts'
import { Fault, fault } from '../../http/fault.ts'
import { fileFault, onPath } from './faults.ts'
import { timeOf } from './info.ts'
import { openRegular, pieces } from './read.ts'
import { isTemporary } from './stage.ts'

/** Deflate's fastest level: three times as fast as the default, and the files are a few percent larger. The browser needs the CPU too. */
const LEVEL = 1

/** Entries that are opened ahead of the one being written, because many small files wait mainly for the disk. */
const AHEAD = 8
/** Files up to this size are read when they are opened, in bytes. */
const SMALL = 64 * 1024

/** Smallest block that is sent, in bytes. The writer makes four tiny pieces of each file, and the service that forwards them serves all sessions. */
const BLOCK = 64 * 1024
/** A block that is not full is sent after this time, so that a slow disk does not look like a dead connection. */
const BLOCK_MS = 200

/** Kernel file systems, not real files. */
const KERNEL = ['/proc', '/sys']

const gone = (error: unknown): boolean => ['ENOENT', 'ENOTDIR', 'ELOOP'].includes((error as NodeJS.ErrnoException).code ?? '')

interface Found {
  path: Buffer
  /** Name in the zip. */
  name: string
  kind: 'directory' | 'link' | 'file'
}

interface Opened {
  name: string
  mtime: Date
  mode: number
  /** Undefined for a directory. */
  content: Readable | undefined
}

/**
 * Zips the directory at `path`. Names are relative to it and sorted by their bytes. Empty directories are included; links are stored as links and never
 * followed. Left out: entries that disappear meanwhile, sockets, FIFOs, devices and unfinished uploads. A file whose length changes is stored with the bytes
 * that could be read. An error destroys the stream.
 */
export async function zipDirectory(path: string): Promise<Readable> {
  await onPath('path', path, async () => {
    if (!(await lstat(`${path}/`)).isDirectory()) throw fault.field('path', 'is not a directory')
    if (KERNEL.some((root) => path === root || path.startsWith(`${root}/`))) throw fault.field('path', 'is a file system of the kernel and has no real files')
    await readdir(path)
  })
  const zip = new ZipFile()
  const out = zip.outputStream as PassThrough
  const left = new AbortController()
  out.on('close', () => left.abort(new Error('the reader of the zip has gone')))
  zip.on('error', (error: Error) => out.destroy(error))
  void pack(zip, path, left.signal).catch((error: unknown) => out.destroy(fileFault(error, 'path', path) as Error))
  // A failure destroys the blocks, which their reader notices.
  return pipeline(out, new Blocks(), () => {})
}

/** Joins small pieces to blocks. */
class Blocks extends Transform {
  readonly #pieces = new Gathered()
  #timer: NodeJS.Timeout | undefined

  override _transform(piece: Buffer, _: string, done: TransformCallback): void {
    this.#pieces.add(piece)
    if (this.#pieces.length >= BLOCK) this.#send()
    else this.#timer ??= setTimeout(() => this.#send(), BLOCK_MS)
    done()
  }

  override _flush(done: TransformCallback): void {
    this.#send()
    done()
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    clearTimeout(this.#timer)
    done(error)
  }

  #send(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    if (this.#pieces.length > 0) this.push(this.#pieces.bytes)
    this.#pieces.clear()
  }
}

async function pack(zip: ZipFile, root: string, signal: AbortSignal): Promise<void> {
  // The writer searches its whole list for each entry, which is slow for long lists, so pending entries wait here.
  const writer = zip as unknown as { entries: unknown[] }
  const written: unknown[] = []
  for await (const { name, mtime, mode, content } of opened(below(root, signal))) {
    if (content === undefined) {
      zip.addEmptyDirectory(name, { mtime, mode })
      continue
    }
    const read = Promise.withResolvers<void>()
    content.on('error', read.reject).on('end', read.resolve)
    try {
      signal.throwIfAborted()
      zip.addReadStreamLazy(name, { mtime, mode, compressionLevel: LEVEL }, (give) => {
        written.push(...writer.entries.splice(0, writer.entries.length - 1))
        give(null, content)
      })
      await abortable(read.promise, signal)
    } finally {
      content.destroy()
    }
  }
  writer.entries.unshift(...written)
  zip.end()
}

/** Opens the entries found, some of them ahead of the one being written. */
async function* opened(found: AsyncIterable<Found>): AsyncGenerator<Opened> {
  const waiting: Promise<Opened | undefined>[] = []
  const next = async () => waiting.shift()
  try {
    for await (const item of found) {
      const opening = open(item)
      opening.catch(() => {}) // the await below throws it
      waiting.push(opening)
      const first = waiting.length > AHEAD ? await next() : undefined
      if (first) yield first
    }
    while (waiting.length > 0) {
      const first = await next()
      if (first) yield first
    }
  } finally {
    for (const opening of waiting) void opening.then((entry) => entry?.content?.destroy()).catch(() => {})
  }
}

/** The writer throws for a time before 1970, outside of every promise: the zip would never end. */
const timeInZip = (stats: Stats): Date => new Date(Math.max(0, timeOf(stats).getTime()))

/** Undefined when it was deleted or replaced by something else. */
async function open({ path, name, kind }: Found): Promise<Opened | undefined> {
  try {
    if (kind !== 'file') {
      const stats = await lstat(path)
      return {
        name,
        mtime: timeInZip(stats),
        mode: stats.mode,
        content: kind === 'link' ? Readable.from([await readlink(path, { encoding: 'buffer' })]) : undefined,
      }
    }
    const { handle, stats } = await openRegular(path, false)
    const { mode, size } = stats
    const mtime = timeInZip(stats)
    if (size > SMALL) return { name, mtime, mode, content: pieces(handle, 0, size, false) }
    try {
      const bytes = Buffer.allocUnsafe(size)
      const { bytesRead } = await handle.read(bytes, 0, size, 0)
      return { name, mtime, mode, content: Readable.from(bytesRead > 0 ? [bytes.subarray(0, bytesRead)] : []) }
    } finally {
      await handle.close()
    }
  } catch (error) {
    if (gone(error) || error instanceof Fault) return undefined
    throw error
  }
}

const kindOf = (entry: Dirent<Buffer>): Found['kind'] | undefined =>
  entry.isDirectory() ? 'directory' : entry.isSymbolicLink() ? 'link' : entry.isFile() ? 'file' : undefined

/** Yields everything below a directory; each directory before its contents. */
async function* below(root: string, signal: AbortSignal): AsyncGenerator<Found> {
  const slash = Buffer.from('/')
  const waiting: Found[] = [{ path: Buffer.from(root === '/' ? '' : root), name: '', kind: 'directory' }]
  for (let at = waiting.pop(); at !== undefined; at = waiting.pop()) {
    signal.throwIfAborted()
    if (at.name !== '') yield at
    if (at.kind !== 'directory') continue
    const { path, name } = at
    try {
      const entries = await readdir(Buffer.concat([path, slash]), { encoding: 'buffer', withFileTypes: true })
      for (const entry of entries.sort((a, b) => Buffer.compare(b.name, a.name))) {
        const kind = kindOf(entry)
        const full = Buffer.concat([path, slash, entry.name])
        if (kind === undefined || isTemporary(entry.name.toString()) || KERNEL.includes(full.toString())) continue
        waiting.push({ path: full, name: `${name}${inZip(entry.name)}${kind === 'directory' ? '/' : ''}`, kind })
      }
    } catch (error) {
      if (!gone(error)) throw error
    }
  }
}

/** A name that is valid in a zip: there a backslash would be a folder, and `c:` a drive. */
const inZip = (raw: Buffer): string =>
  raw
    .toString()
    .replaceAll('\\', '_')
    .replace(/^([a-z]):/i, '$1_')
