// Unpacks the zip of an app's code. A zip is never trusted: names, sizes, kinds and checksums are checked during unpacking. The agent has another
// unzip for callers (agent/fs/unzip.ts), which merges a tree into existing files.
import { chmodSync, mkdirSync, symlinkSync } from 'node:fs'
import { open, type FileHandle } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { Readable, pipeline } from 'node:stream'
import { crc32, createInflateRaw, inflateRawSync } from 'node:zlib'
import { fromRandomAccessReaderPromise, type Entry, type ZipFile } from 'yauzl'
import { ZipReader, type ZipLimits } from '../base/zip-file.ts'
import { BuildFailed } from './tools.ts'

export const ZIP_LIMITS: ZipLimits = { entries: 200_000, bytes: 2 * 1024 ** 3, ratio: 200, ratioFromBytes: 200 * 1024 ** 2 }

const MAX_NAME = 4096
/** An entry up to this packed size is unpacked in one step, which for thousands of small files is many times faster. */
const SMALL = 1024 * 1024
const PIECE = 256 * 1024

const DIRECTORY = 0o755
const FILE = 0o644
const EXECUTABLE = 0o111
const S_IFMT = 0o170000
const S_IFLNK = 0o120000
const STORED = 0

const refuse = (problem: string): Error => new BuildFailed(`the archive ${problem}`)

/** Unpacks the zip `archive` into `root`, a directory that it creates. */
export async function unpackArchive(archive: string, root: string, signal: AbortSignal, limits = ZIP_LIMITS): Promise<{ files: number; bytes: number }> {
  const handle = await open(archive)
  try {
    const { size } = await handle.stat()
    const zip = await fromRandomAccessReaderPromise(new ZipReader(handle), size, { autoClose: false }).catch((error: unknown) => {
      throw unreadable(error)
    })
    mkdirSync(root, { recursive: true, mode: DIRECTORY })
    return await new Unpacking(zip, handle, root, limits, signal).run()
  } finally {
    await handle.close()
  }
}

/** Errors of the zip reader become build failures; errors of the file system have a `code` and stay. */
function unreadable(error: unknown): unknown {
  const { code, message } = error as NodeJS.ErrnoException
  if (error instanceof BuildFailed) return error
  return code === undefined || code.startsWith('Z_') || code === 'ERR_BUFFER_TOO_LARGE' ? refuse(`is not a zip that can be read (${message})`) : error
}

class Unpacking {
  readonly #zip: ZipFile
  readonly #handle: FileHandle
  readonly #root: string
  readonly #limits: ZipLimits
  readonly #signal: AbortSignal
  readonly #made = new Map<string, 'directory' | 'file'>()
  /** Created last, so that no file can be written through a link. */
  readonly #links: { key: string; target: string }[] = []
  #files = 0
  #bytes = 0

  constructor(zip: ZipFile, handle: FileHandle, root: string, limits: ZipLimits, signal: AbortSignal) {
    this.#zip = zip
    this.#handle = handle
    this.#root = root
    this.#limits = limits
    this.#signal = signal
  }

  async run(): Promise<{ files: number; bytes: number }> {
    if (this.#zip.entryCount > this.#limits.entries) throw this.#tooMany()
    const entries = this.#zip.eachEntry()
    for (;;) {
      this.#signal.throwIfAborted()
      const { value: entry, done } = await entries.next().catch((error: unknown) => {
        throw unreadable(error)
      })
      if (done) break
      try {
        await this.#unpack(entry)
      } catch (error) {
        const { code } = error as NodeJS.ErrnoException
        throw code === 'ENAMETOOLONG' ? refuse(`has the name "${entry.fileName.slice(0, 200)}…", which is too long`) : error
      }
    }
    for (const { key, target } of this.#links) this.#link(key, target)
    return { files: this.#files, bytes: this.#bytes }
  }

  async #unpack(entry: Entry): Promise<void> {
    const name = entry.fileName
    if (name.includes('\0')) throw refuse('has a name with U+0000 in it')
    if (Buffer.byteLength(name) > MAX_NAME) throw refuse(`has the name "${name.slice(0, 200)}…", which is too long`)
    if (entry.isEncrypted()) throw refuse(`is encrypted ("${name}")`)
    if (!entry.canDecodeFileData()) throw refuse(`has "${name}" packed by a method other than deflate`)
    const parts = name.split('/').filter((part) => part !== '' && part !== '.')
    if (parts.includes('..')) throw refuse(`has the name "${name}", which leads out of it`)
    if (name.endsWith('/') || parts.length === 0) return this.#directory(parts, name)
    this.#directory(parts.slice(0, -1), name)
    const key = parts.join('/')
    if (this.#made.has(key)) throw refuse(`has "${name}" twice`)
    this.#note(key, 'file')
    // Zips from Windows have no Unix mode here, those of Go's writer have 0.
    const mode = entry.externalFileAttributes >>> 16
    if ((mode & S_IFMT) === S_IFLNK) return void this.#links.push({ key, target: await this.#target(entry) })
    await this.#file(entry, join(this.#root, key), mode & EXECUTABLE ? DIRECTORY : FILE)
  }

  #directory(parts: readonly string[], name: string): void {
    for (let length = 1; length <= parts.length; length++) {
      const key = parts.slice(0, length).join('/')
      const before = this.#made.get(key)
      if (before === 'directory') continue
      if (before === 'file') throw refuse(`has "${name}" below "${key}", which is not a directory`)
      this.#note(key, 'directory')
      mkdirSync(join(this.#root, key), { mode: DIRECTORY })
    }
  }

  #note(key: string, kind: 'directory' | 'file'): void {
    this.#made.set(key, kind)
    if (kind === 'file') this.#files++
    if (this.#made.size > this.#limits.entries) throw this.#tooMany()
  }

  #tooMany(): Error {
    return refuse(`has more than ${this.#limits.entries} entries`)
  }

  async #file(entry: Entry, path: string, mode: number): Promise<void> {
    const file = await open(path, 'wx', mode)
    try {
      for await (const chunk of this.#content(entry)) for (let at = 0; at < chunk.length;) at += (await file.write(chunk, at)).bytesWritten
    } finally {
      await file.close()
    }
    chmodSync(path, mode)
  }

  async #target(entry: Entry): Promise<string> {
    if (entry.uncompressedSize > MAX_NAME) throw refuse(`has a link "${entry.fileName}" whose target is too long`)
    const chunks: Buffer[] = []
    for await (const chunk of this.#content(entry)) chunks.push(chunk)
    const target = Buffer.concat(chunks).toString()
    if (!staysWithin(dirname(entry.fileName), target)) throw refuse(`has a link "${entry.fileName}" that leads out of it`)
    return target
  }

  #link(key: string, target: string): void {
    symlinkSync(target, join(this.#root, key))
  }

  /** The contents of an entry. Checks its size against the limits, and its length and checksum against the header. */
  async *#content(entry: Entry): AsyncGenerator<Buffer> {
    let length = 0
    let sum = 0
    for await (const chunk of this.#unpacked(entry)) {
      this.#signal.throwIfAborted()
      length += chunk.length
      this.#bytes += chunk.length
      if (this.#bytes > this.#limits.bytes) throw refuse(`unpacks to more than ${this.#limits.bytes} bytes`)
      if (this.#bytes > this.#limits.ratioFromBytes && this.#bytes > this.#limits.ratio * this.#zip.fileSize)
        throw refuse(`unpacks to more than ${this.#limits.ratio} times its size`)
      sum = crc32(chunk, sum)
      yield chunk
    }
    if (length !== entry.uncompressedSize || sum !== entry.crc32) throw refuse(`is damaged at "${entry.fileName}"`)
  }

  async *#unpacked(entry: Entry): AsyncGenerator<Buffer> {
    try {
      const { fileDataStart: start } = await this.#zip.readLocalFileHeaderPromise(entry, { minimal: true })
      const isStored = entry.compressionMethod === STORED
      if (entry.compressedSize <= SMALL && entry.uncompressedSize <= 8 * SMALL) {
        const chunks: Buffer[] = []
        for await (const chunk of this.#packed(start, entry.compressedSize)) chunks.push(chunk)
        const packed = Buffer.concat(chunks)
        // One byte too many is found by the length check; more than that is an error of zlib.
        return yield isStored ? packed : inflateRawSync(packed, { maxOutputLength: entry.uncompressedSize + 1 })
      }
      const packed = Readable.from(this.#packed(start, entry.compressedSize), { objectMode: false })
      yield* isStored ? packed : pipeline(packed, createInflateRaw({ chunkSize: PIECE }), () => {})
    } catch (error) {
      throw unreadable(error)
    }
  }

  async *#packed(start: number, length: number): AsyncGenerator<Buffer> {
    for (let at = 0; at < length;) {
      const buffer = Buffer.allocUnsafe(Math.min(PIECE, length - at))
      const { bytesRead } = await this.#handle.read(buffer, 0, buffer.length, start + at)
      if (bytesRead === 0) throw refuse('is cut off')
      at += bytesRead
      yield buffer.subarray(0, bytesRead)
    }
  }
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
  const depth = from.split('/').filter((part) => part !== '' && part !== '.').length
  return parts.lastIndexOf('..') < ups && ups <= depth
}
