// Unpacks a zip into a temporary directory beside the destination, checks it on the way, then moves the result in. A zip is never trusted.
import { lstat, mkdir, open, readdir, rename, rm, symlink, type FileHandle } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { pipeline } from 'node:stream'
import { crc32, createInflateRaw } from 'node:zlib'
import { fromRandomAccessReaderPromise, type Entry, type ZipFile } from 'yauzl'
import { ZipReader, type ZipLimits } from '../../base/zip-file.ts'
import { fault } from '../../http/fault.ts'
import { onPath } from './faults.ts'
import { pieces } from './read.ts'
import { DIRECTORY_MODE, FILE_MODE, isTemporary, makeDirectories, temporaryName, writeAll } from './stage.ts'
import { Undo } from './undo.ts'

export const ZIP_LIMITS: ZipLimits = { entries: 100_000, bytes: 4 * 1024 ** 3, ratio: 200, ratioFromBytes: 100 * 1024 ** 2 }

/** Files written at the same time, because creating a file waits for the disk. */
const AT_ONCE = 4

/** Bytes unpacked per chunk. */
const PIECE = 64 * 1024

/** The longest link target in bytes, as for any path. */
const MAX_TARGET = 4095

const S_IFMT = 0o170000
const S_IFLNK = 0o120000
const MADE_ON_UNIX = 3
const STORED = 0

const refuse = (problem: string): Error => fault.field('zip_file', problem)

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
    await new Unpacking(await openZip(handle), handle, staging, limits, signal).run()
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

async function openZip(handle: FileHandle): Promise<ZipFile> {
  try {
    const { size } = await handle.stat()
    return await fromRandomAccessReaderPromise(new ZipReader(handle), size, { autoClose: false, strictFileNames: true })
  } catch (error) {
    throw unreadable(error)
  }
}

/** Errors of the zip reader become faults about the zip; errors of the file system have a `code` and stay. */
const unreadable = (error: unknown): unknown => {
  const { code, message } = error as NodeJS.ErrnoException
  return code === undefined || code.startsWith('Z_') ? refuse(`is not a zip that can be read (${message})`) : error
}

class Unpacking {
  readonly #zip: ZipFile
  readonly #handle: FileHandle
  readonly #root: string
  readonly #limits: ZipLimits
  readonly #signal: AbortSignal
  /** What has been unpacked so far, by name. */
  readonly #made = new Map<string, 'directory' | 'file'>()
  #bytes = 0
  /** Writes in progress. These promises never reject; errors go to {@link #failures}. */
  readonly #writing = new Set<Promise<void>>()
  readonly #failures: unknown[] = []

  constructor(zip: ZipFile, handle: FileHandle, root: string, limits: ZipLimits, signal: AbortSignal) {
    this.#zip = zip
    this.#handle = handle
    this.#root = root
    this.#limits = limits
    this.#signal = signal
  }

  async run(): Promise<void> {
    if (this.#zip.entryCount > this.#limits.entries) throw this.#tooMany()
    const entries = this.#zip.eachEntry()
    try {
      for (;;) {
        this.#signal.throwIfAborted()
        const { value: entry, done } = await entries.next().catch((error: unknown) => {
          throw unreadable(error)
        })
        if (done) break
        await this.#unpack(entry)
      }
    } finally {
      await Promise.all(this.#writing)
    }
    if (this.#failures.length > 0) throw this.#failures[0]
  }

  /** Runs `work` concurrently, up to the limit. */
  async #beside(work: Promise<void>): Promise<void> {
    const writing = work.catch((error: unknown) => void this.#failures.push(error)).then(() => void this.#writing.delete(writing))
    this.#writing.add(writing)
    if (this.#writing.size >= AT_ONCE) await Promise.race(this.#writing)
    if (this.#failures.length > 0) throw this.#failures[0]
  }

  async #unpack(entry: Entry): Promise<void> {
    const name = nameOf(entry)
    if (entry.isEncrypted()) throw refuse(`"${name}" is encrypted`)
    if (!entry.canDecodeFileData()) throw refuse(`"${name}" is packed by a method other than deflate`)
    const parts = name.split('/').filter((part) => part !== '' && part !== '.')
    if (parts.some(isTemporary)) throw refuse(`"${name}" has a name that is reserved for unfinished files`)
    if (name.endsWith('/') || parts.length === 0) return this.#directory(parts, name)
    await this.#directory(parts.slice(0, -1), name)
    const key = parts.join('/')
    if (this.#made.has(key)) throw refuse(`"${name}" is in the zip twice`)
    this.#note(key, 'file')
    const path = join(this.#root, key)
    const mode = entry.versionMadeBy >> 8 === MADE_ON_UNIX ? entry.externalFileAttributes >>> 16 : 0
    const isLink = (mode & S_IFMT) === S_IFLNK
    await this.#beside(onPath('zip_file', name, () => (isLink ? this.#link(entry, key, path) : this.#file(entry, path, mode & 0o777 || FILE_MODE))))
  }

  async #directory(parts: readonly string[], name: string): Promise<void> {
    for (let length = 1; length <= parts.length; length++) {
      const key = parts.slice(0, length).join('/')
      const before = this.#made.get(key)
      if (before === 'directory') continue
      if (before === 'file') throw refuse(`"${name}" needs "${key}" to be a directory, but it is a file in the zip`)
      this.#note(key, 'directory')
      await onPath('zip_file', name, () => mkdir(join(this.#root, key), { mode: DIRECTORY_MODE }))
    }
  }

  #note(key: string, kind: 'directory' | 'file'): void {
    this.#made.set(key, kind)
    if (this.#made.size > this.#limits.entries) throw this.#tooMany()
  }

  #tooMany(): Error {
    return refuse(`has more than ${this.#limits.entries} entries`)
  }

  async #file(entry: Entry, path: string, mode: number): Promise<void> {
    const handle = await open(path, 'wx', 0o600)
    try {
      for await (const chunk of this.#content(entry)) await writeAll(handle, chunk)
      await handle.chmod(mode)
    } finally {
      await handle.close()
    }
  }

  async #link(entry: Entry, key: string, path: string): Promise<void> {
    if (entry.uncompressedSize > MAX_TARGET) throw refuse(`the link "${key}" has a target of more than ${MAX_TARGET} bytes`)
    const chunks: Buffer[] = []
    for await (const chunk of this.#content(entry)) chunks.push(chunk)
    const target = Buffer.concat(chunks).toString()
    if (!staysWithin(dirname(key), target)) throw refuse(`the link "${key}" leads out of the directory it is unpacked to`)
    await symlink(target, path)
  }

  /** The contents of an entry. Checks its size against the limits, and its length and checksum against the header. */
  async *#content(entry: Entry): AsyncGenerator<Buffer> {
    let length = 0
    let sum = 0
    for await (const chunk of this.#stream(entry)) {
      this.#signal.throwIfAborted()
      length += chunk.length
      this.#bytes += chunk.length
      if (this.#bytes > this.#limits.bytes) throw refuse(`unpacks to more than ${this.#limits.bytes} bytes`)
      if (this.#bytes > this.#limits.ratioFromBytes && this.#bytes > this.#limits.ratio * this.#zip.fileSize)
        throw refuse(`unpacks to more than ${this.#limits.ratio} times its size`)
      sum = crc32(chunk, sum)
      yield chunk
    }
    if (length !== entry.uncompressedSize || sum !== entry.crc32) throw refuse(`"${nameOf(entry)}" is damaged`)
  }

  async *#stream(entry: Entry): AsyncGenerator<Buffer> {
    try {
      const { fileDataStart: start } = await this.#zip.readLocalFileHeaderPromise(entry, { minimal: true })
      const packed = pieces(this.#handle, start, start + entry.compressedSize, true, true)
      try {
        yield* entry.compressionMethod === STORED ? packed : pipeline(packed, createInflateRaw({ chunkSize: PIECE }), () => {})
      } finally {
        // Wait until no read uses the file before closing it.
        packed.destroy()
        if (!packed.closed) await new Promise((resolve) => packed.once('close', resolve))
      }
    } catch (error) {
      throw unreadable(error)
    }
  }
}

function nameOf({ fileName }: Entry): string {
  if (fileName.includes('\0')) throw refuse('has a name with U+0000 in it')
  return fileName
}

/**
 * Whether a link in the directory `from` (relative to the root) points below the root. Steps up are only allowed at the start, where they pass
 * through directories of the zip. After a name they could start from the target of another link.
 */
export function staysWithin(from: string, target: string): boolean {
  if (target === '' || target.startsWith('/') || target.includes('\0')) return false
  const parts = target.split('/').filter((part) => part !== '' && part !== '.')
  const first = parts.findIndex((part) => part !== '..')
  const ups = first === -1 ? parts.length : first
  return parts.lastIndexOf('..') < ups && ups <= (from === '.' ? 0 : from.split('/').length)
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
