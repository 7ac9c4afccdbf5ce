// Reads a zip that is never trusted: names, kinds, sizes and checksums are checked on the way. Where the entries go, and what they replace, is the
// business of the modules that unpack: agent/fs/unzip.ts and runner/unzip.ts. (control/sessions/extensions/archive.ts only looks at the list.)
import { read } from 'node:fs'
import type { FileHandle } from 'node:fs/promises'
import { dirname } from 'node:path'
import { Readable, pipeline } from 'node:stream'
import { callbackify } from 'node:util'
import { crc32, createInflateRaw, inflateRawSync } from 'node:zlib'
import { fromRandomAccessReaderPromise, RandomAccessReader, type Entry, type ZipFile } from 'yauzl'

/** Limits on the content of one zip. Directories that are implied by names count as entries. */
export interface ZipLimits {
  entries: number
  /** Bytes of all files together. */
  bytes: number
  /** Limit on unpacked bytes per byte of the archive... */
  ratio: number
  /** ...which applies above this size. Text packs 10 : 1; deflate's maximum is 1032 : 1. */
  ratioFromBytes: number
}

export interface ZipRules {
  limits: ZipLimits
  /** Refuses names with backslashes. Otherwise they separate, as in zips from Windows. */
  strictNames: boolean
  /** Takes modes also from zips that do not say that they come from Unix. Python writes such zips on Windows. */
  anyModes: boolean
  /** An entry up to this packed size (bytes) is unpacked in one step: many times faster for small files, but nothing else runs meanwhile. */
  oneStep: number
}

/** The longest name of an entry in bytes, and the longest target of a link: PATH_MAX of Linux, without its final zero. */
const MAX_PATH = 4095
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

/** A zip that is refused. The message continues a sentence that begins with the zip: `has "a" twice`. */
export class BadZip extends Error {
  override name = 'BadZip'
}

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
        /** It was a device, a pipe or a socket where it was packed. */
        isSpecial: boolean
        /** The size that the zip gives. The content is checked against it. */
        bytes: number
        content: Content
      }
    | { kind: 'link'; target: () => Promise<string> }
  )
type Content = () => AsyncGenerator<Buffer>

/** Where the bytes of a zip are. */
export interface ZipSource {
  size: number
  /** Fills a part of the buffer. Returns how many bytes it has read; 0 at the end. */
  read(buffer: Buffer, offset: number, length: number, position: number): Promise<number>
}

/** Opens the zip in `file`, which stays its caller's and has to be open while entries are read. @throws BadZip */
export async function openZip(file: FileHandle, rules: ZipRules, signal: AbortSignal): Promise<Unzip> {
  const { size } = await file.stat()
  const source: ZipSource = { size, read: async (...piece) => (await file.read(...piece)).bytesRead }
  return openWith(new FileZip(file), source, rules, signal)
}

/** Opens a zip whose bytes are elsewhere. @throws BadZip, and what the source throws */
export const openZipSource = (source: ZipSource, rules: ZipRules, signal: AbortSignal): Promise<Unzip> => openWith(new SourceZip(source), source, rules, signal)

async function openWith(reader: RandomAccessReader, source: ZipSource, rules: ZipRules, signal: AbortSignal): Promise<Unzip> {
  const zip = await fromRandomAccessReaderPromise(reader, source.size, { autoClose: false, strictFileNames: rules.strictNames }).catch(asBadZip)
  return new Unzip(zip, source, rules, signal)
}

/** Errors of the zip reader and of zlib become {@link BadZip}; errors of the file system have a `code` and stay. */
function asBadZip(error: unknown): never {
  if (error instanceof SourceFailed) throw error.cause
  const { code, message } = error as NodeJS.ErrnoException
  if (error instanceof BadZip) throw error
  throw code === undefined || code.startsWith('Z_') || code === 'ERR_BUFFER_TOO_LARGE' ? new BadZip(`is not a zip that can be read (${message})`) : error
}

/** Reads an archive's list of entries. Contents are read without yauzl's streams: those end the process when several are aborted. */
class FileZip extends RandomAccessReader {
  readonly #file: FileHandle

  constructor(file: FileHandle) {
    super()
    this.#file = file
  }

  override read(buffer: Buffer, offset: number, length: number, position: number, done: (error: Error | null, bytesRead?: number) => void): void {
    read(this.#file.fd, buffer, offset, length, position, done)
  }
}

/** The same for a zip elsewhere. */
class SourceZip extends RandomAccessReader {
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

/** Tells an error of a {@link ZipSource} from one of the zip reader. */
class SourceFailed extends Error {}

export class Unzip {
  readonly #zip: ZipFile
  readonly #source: ZipSource
  readonly #rules: ZipRules
  readonly #signal: AbortSignal
  readonly #found = new Map<string, ZipEntry['kind']>()
  #bytes = 0

  constructor(zip: ZipFile, source: ZipSource, rules: ZipRules, signal: AbortSignal) {
    this.#zip = zip
    this.#source = source
    this.#rules = rules
    this.#signal = signal
  }

  /** Bytes unpacked so far. */
  get bytes(): number {
    return this.#bytes
  }

  /** Each path once, directories (also those that only names imply) before what they hold. @throws BadZip, here and while contents are read */
  async *entries(): AsyncGenerator<ZipEntry> {
    if (this.#zip.entryCount > this.#rules.limits.entries) throw this.#tooMany()
    const entries = this.#zip.eachEntry()
    for (;;) {
      this.#signal.throwIfAborted()
      const { value: entry, done } = await entries.next().catch(asBadZip)
      if (done) return
      yield* this.#checked(entry)
    }
  }

  *#checked(entry: Entry): Generator<ZipEntry> {
    const name = entry.fileName
    if (name.includes('\0')) throw new BadZip('has a name with U+0000 in it')
    if (Buffer.byteLength(name) > MAX_PATH) throw nameTooLong(name)
    if (entry.isEncrypted()) throw new BadZip(`is encrypted ("${name}")`)
    if (!entry.canDecodeFileData()) throw new BadZip(`has "${name}" packed by a method other than deflate`)
    const parts = name.split('/').filter((part) => part !== '' && part !== '.')
    if (parts.includes('..')) throw new BadZip(`has the name "${name}", which leads out of it`)
    const isDirectory = name.endsWith('/') || parts.length === 0
    yield* this.#directories(isDirectory ? parts : parts.slice(0, -1), name)
    if (isDirectory) return
    const path = parts.join('/')
    if (this.#found.has(path)) throw new BadZip(`has "${name}" twice`)
    const mode = this.#rules.anyModes || entry.versionMadeBy >> 8 === MADE_ON_UNIX ? entry.externalFileAttributes >>> 16 : 0
    const type = mode & S_IFMT
    if (type === S_IFLNK) return yield this.#note({ kind: 'link', name, path, target: () => this.#target(entry, path) })
    const isSpecial = SPECIAL.includes(type)
    yield this.#note({ kind: 'file', name, path, mode: mode & 0o777, isSpecial, bytes: entry.uncompressedSize, content: () => this.#content(entry) })
  }

  *#directories(parts: readonly string[], name: string): Generator<ZipEntry> {
    // From the whole path upwards: a name may have two thousand levels, and thousands of names may share them. What is known has all above it.
    const missing: string[] = []
    for (let path = parts.join('/'); path !== ''; path = path.slice(0, Math.max(0, path.lastIndexOf('/')))) {
      const before = this.#found.get(path)
      if (before === 'directory') break
      if (before !== undefined) throw new BadZip(`has "${name}" below "${path}", which is not a directory`)
      missing.push(path)
    }
    for (const path of missing.reverse()) yield this.#note({ kind: 'directory', name, path })
  }

  #note(entry: ZipEntry): ZipEntry {
    this.#found.set(entry.path, entry.kind)
    if (this.#found.size > this.#rules.limits.entries) throw this.#tooMany()
    return entry
  }

  #tooMany(): Error {
    return new BadZip(`has more than ${this.#rules.limits.entries} entries`)
  }

  async #target(entry: Entry, path: string): Promise<string> {
    if (entry.uncompressedSize > MAX_PATH) throw new BadZip(`has a link "${path}" whose target is too long`)
    const chunks: Buffer[] = []
    for await (const chunk of this.#content(entry)) chunks.push(chunk)
    const target = Buffer.concat(chunks).toString()
    if (!staysWithin(dirname(path), target)) throw new BadZip(`has a link "${path}" that leads out of it`)
    return target
  }

  /** Checks the size against the limits, and the length and checksum against the header. */
  async *#content(entry: Entry): AsyncGenerator<Buffer> {
    const { bytes, ratio, ratioFromBytes } = this.#rules.limits
    let length = 0
    let sum = 0
    for await (const chunk of this.#unpacked(entry)) {
      this.#signal.throwIfAborted()
      length += chunk.length
      if (length > entry.uncompressedSize) throw new BadZip(`is damaged at "${entry.fileName}"`)
      this.#bytes += chunk.length
      if (this.#bytes > bytes) throw new BadZip(`unpacks to more than ${bytes} bytes`)
      if (this.#bytes > ratioFromBytes && this.#bytes > ratio * this.#zip.fileSize) throw new BadZip(`unpacks to more than ${ratio} times its size`)
      sum = crc32(chunk, sum)
      yield chunk
    }
    if (length !== entry.uncompressedSize || sum !== entry.crc32) throw new BadZip(`is damaged at "${entry.fileName}"`)
  }

  async *#unpacked(entry: Entry): AsyncGenerator<Buffer> {
    try {
      const { fileDataStart: start } = await this.#zip.readLocalFileHeaderPromise(entry, { minimal: true })
      const isStored = entry.compressionMethod === STORED
      if (entry.compressedSize <= this.#rules.oneStep && entry.uncompressedSize <= USUAL_RATIO * this.#rules.oneStep) {
        const chunks: Buffer[] = []
        for await (const chunk of this.#packed(start, entry.compressedSize)) chunks.push(chunk)
        const packed = Buffer.concat(chunks)
        // One byte too many is found by the length check; more than that is an error of zlib.
        return yield isStored ? packed : inflateRawSync(packed, { maxOutputLength: entry.uncompressedSize + 1 })
      }
      const packed = Readable.from(this.#packed(start, entry.compressedSize), { objectMode: false })
      yield* isStored ? packed : pipeline(packed, createInflateRaw({ chunkSize: PIECE }), () => {})
    } catch (error) {
      asBadZip(error)
    }
  }

  async *#packed(start: number, length: number): AsyncGenerator<Buffer> {
    for (let at = 0; at < length;) {
      const buffer = Buffer.allocUnsafe(Math.min(PIECE, length - at))
      const bytesRead = await this.#source.read(buffer, 0, buffer.length, start + at)
      if (bytesRead === 0) throw new BadZip('is cut off')
      at += bytesRead
      yield buffer.subarray(0, bytesRead)
    }
  }
}

export const nameTooLong = (name: string): BadZip => new BadZip(`has the name "${name.slice(0, 200)}…", which is too long`)

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
