// Reads a zip that is never trusted: names, kinds, sizes and checksums are checked on the way. Its users decide where the entries go, and what they replace.
import type { FileHandle } from 'node:fs/promises'
import { dirname } from 'node:path'
import { Readable, pipeline } from 'node:stream'
import { callbackify } from 'node:util'
import { crc32, createInflateRaw, inflateRawSync } from 'node:zlib'
import { fromRandomAccessReaderPromise, RandomAccessReader, type Entry, type ZipFile } from 'yauzl'
import { BadArchive, Contents, MAX_PATH, type ArchiveLimits } from './contents.ts'

export interface ZipRules {
  limits: ArchiveLimits
  /** Refuses names with backslashes. Otherwise a backslash is a separator, as in zips from Windows. */
  strictNames: boolean
  /** Uses modes also of zips that do not declare that they come from Unix. Python writes such zips on Windows. */
  anyModes: boolean
  /** An entry up to this packed size (bytes) is unpacked in one step: many times faster for small files, but it blocks the process meanwhile. */
  oneStep: number
}

/** Bytes read, and unpacked, at a time. */
const PIECE = 256 * 1024
/** An entry that unpacks to more than this many times the size of {@link ZipRules.oneStep} is not unpacked in one step. */
const USUAL_RATIO = 8

const S_IFMT = 0o170000
const S_IFLNK = 0o120000
/** Pipes, devices for characters and for blocks, sockets (inode(7)). */
const SPECIAL = [0o010000, 0o020000, 0o060000, 0o140000]
const MADE_ON_UNIX = 3
const STORED = 0

interface Named {
  /** As in the zip, for messages. */
  name: string
  /** Below the root, without empty parts and dots. */
  path: string
}
export type ZipEntry = Named &
  (
    | { kind: 'directory' }
    | {
        kind: 'file'
        /** 0 when the zip has none. */
        mode: number
        /** The entry was a device, a pipe or a socket when it was packed. */
        isSpecial: boolean
        /** The size that the zip gives. The content is checked against it. */
        bytes: number
        content: Content
      }
    | { kind: 'link'; target: () => Promise<string> }
  )
type Content = () => AsyncGenerator<Buffer>

/** The source of a zip's bytes. */
export interface ZipSource {
  size: number
  /** Fills a part of the buffer. Returns how many bytes it has read; 0 at the end. */
  read(buffer: Buffer, offset: number, length: number, position: number): Promise<number>
}

/** An open file. Its caller owns it, and must keep it open while entries are read. */
export async function fileSource(file: FileHandle): Promise<ZipSource> {
  const { size } = await file.stat()
  return { size, read: async (...piece) => (await file.read(...piece)).bytesRead }
}

export const bytesSource = (zip: Buffer): ZipSource => ({
  size: zip.length,
  read: async (target, offset, length, position) => zip.copy(target, offset, position, position + length),
})

/** @throws BadArchive, and what the source throws */
export async function openZip(source: ZipSource, rules: ZipRules, signal: AbortSignal): Promise<Unzip> {
  const options = { autoClose: false, strictFileNames: rules.strictNames }
  const zip = await fromRandomAccessReaderPromise(new SourceReader(source), source.size, options).catch(asBadArchive)
  return new Unzip(zip, source, rules, signal)
}

/** Errors of the zip reader and of zlib become {@link BadArchive}; errors of the file system have a `code` and stay. */
function asBadArchive(error: unknown): never {
  if (error instanceof SourceFailed) throw error.cause
  const { code, message } = error as NodeJS.ErrnoException
  if (error instanceof BadArchive) throw error
  throw code === undefined || code.startsWith('Z_') || code === 'ERR_BUFFER_TOO_LARGE' ? new BadArchive(`is not a zip that can be read (${message})`) : error
}

/** Reads an archive's list of entries. Contents are read without yauzl's streams: those end the process when several are aborted. */
class SourceReader extends RandomAccessReader {
  readonly #source: ZipSource

  constructor(source: ZipSource) {
    super()
    this.#source = source
  }

  override read(buffer: Buffer, offset: number, length: number, position: number, done: (error: Error | null, bytesRead?: number) => void): void {
    callbackify(() => this.#source.read(buffer, offset, length, position))((cause, bytesRead) =>
      cause ? done(new SourceFailed('the zip cannot be read', { cause })) : done(null, bytesRead),
    )
  }
}

/** Distinguishes an error of a {@link ZipSource} from an error of the zip reader. */
class SourceFailed extends Error {}

export class Unzip {
  readonly #zip: ZipFile
  readonly #source: ZipSource
  readonly #rules: ZipRules
  readonly #signal: AbortSignal
  readonly #contents: Contents

  constructor(zip: ZipFile, source: ZipSource, rules: ZipRules, signal: AbortSignal) {
    this.#zip = zip
    this.#source = source
    this.#rules = rules
    this.#signal = signal
    this.#contents = new Contents(rules.limits, zip.fileSize)
  }

  /** Bytes unpacked so far. */
  get bytes(): number {
    return this.#contents.bytes
  }

  /** Each path once, directories (including implied ones) before their content. @throws BadArchive, here and while contents are read */
  async *entries(): AsyncGenerator<ZipEntry> {
    this.#contents.checkEntries(this.#zip.entryCount)
    const entries = this.#zip.eachEntry()
    for (;;) {
      this.#signal.throwIfAborted()
      const { value: entry, done } = await entries.next().catch(asBadArchive)
      if (done) return
      yield* this.#checked(entry)
    }
  }

  *#checked(entry: Entry): Generator<ZipEntry> {
    const name = entry.fileName
    if (entry.isEncrypted()) throw new BadArchive(`is encrypted ("${name}")`)
    if (!entry.canDecodeFileData()) throw new BadArchive(`has "${name}" packed by a method other than deflate`)
    const isDirectory = name.endsWith('/') || name === '.'
    const mode = this.#rules.anyModes || entry.versionMadeBy >> 8 === MADE_ON_UNIX ? entry.externalFileAttributes >>> 16 : 0
    const isLink = !isDirectory && (mode & S_IFMT) === S_IFLNK
    const { path, directories } = this.#contents.add(name, isDirectory ? 'directory' : isLink ? 'link' : 'file')
    for (const directory of directories) yield { kind: 'directory', name, path: directory }
    if (isDirectory) return
    if (isLink) return yield { kind: 'link', name, path, target: () => this.#target(entry, path) }
    const isSpecial = SPECIAL.includes(mode & S_IFMT)
    yield { kind: 'file', name, path, mode: mode & 0o777, isSpecial, bytes: entry.uncompressedSize, content: () => this.#content(entry) }
  }

  async #target(entry: Entry, path: string): Promise<string> {
    if (entry.uncompressedSize > MAX_PATH) throw new BadArchive(`has a link "${path}" whose target is too long`)
    const chunks: Buffer[] = []
    for await (const chunk of this.#content(entry)) chunks.push(chunk)
    const target = Buffer.concat(chunks).toString()
    if (!staysWithin(dirname(path), target)) throw new BadArchive(`has a link "${path}" that leads out of it`)
    return target
  }

  /** Checks the size against the limits, and the length and checksum against the header. */
  async *#content(entry: Entry): AsyncGenerator<Buffer> {
    let length = 0
    let sum = 0
    for await (const chunk of this.#unpacked(entry)) {
      this.#signal.throwIfAborted()
      length += chunk.length
      if (length > entry.uncompressedSize) throw new BadArchive(`is damaged at "${entry.fileName}"`)
      this.#contents.count(chunk.length)
      sum = crc32(chunk, sum)
      yield chunk
    }
    if (length !== entry.uncompressedSize || sum !== entry.crc32) throw new BadArchive(`is damaged at "${entry.fileName}"`)
  }

  async *#unpacked(entry: Entry): AsyncGenerator<Buffer> {
    try {
      const { fileDataStart: start } = await this.#zip.readLocalFileHeaderPromise(entry, { minimal: true })
      const isStored = entry.compressionMethod === STORED
      if (entry.compressedSize <= this.#rules.oneStep && entry.uncompressedSize <= USUAL_RATIO * this.#rules.oneStep) {
        const chunks: Buffer[] = []
        for await (const chunk of this.#packed(start, entry.compressedSize)) chunks.push(chunk)
        const packed = Buffer.concat(chunks)
        // The length check finds one byte too many; more than that is an error of zlib.
        return yield isStored ? packed : inflateRawSync(packed, { maxOutputLength: entry.uncompressedSize + 1 })
      }
      const packed = Readable.from(this.#packed(start, entry.compressedSize), { objectMode: false })
      yield* isStored ? packed : pipeline(packed, createInflateRaw({ chunkSize: PIECE }), () => {})
    } catch (error) {
      asBadArchive(error)
    }
  }

  async *#packed(start: number, length: number): AsyncGenerator<Buffer> {
    for (let at = 0; at < length;) {
      const buffer = Buffer.allocUnsafe(Math.min(PIECE, length - at))
      const bytesRead = await this.#source.read(buffer, 0, buffer.length, start + at)
      if (bytesRead === 0) throw new BadArchive('is cut off')
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
  return parts.lastIndexOf('..') < ups && ups <= (from === '.' ? 0 : from.split('/').length)
}
