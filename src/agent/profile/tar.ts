// The tar format, as far as a profile needs it: files and directories, read piece by piece and written as headers. A hostile archive is refused here;
// what is done with the entries is in archive.ts.

/** Archives that cannot be read, or that have what a profile cannot have. The message says what. */
export class BadTar extends Error {}

interface TarLimits {
  /** Limit on files and directories, the directories that only paths name included. */
  entries: number
  /** Limit on the bytes of all files and long names. */
  bytes: number
}

/** Takes what {@link TarReader} finds. Paths are relative, and each directory comes before what is in it. */
export interface TarSink {
  directory(path: string): void
  /** The returned writer gets the bytes of the file, and then `end`. */
  file(path: string): { write(piece: Buffer): void; end(): void }
}

const BLOCK = 512
/** A name of a file system's entry, in bytes (NAME_MAX). */
const MAX_NAME = 255
/** A path in an archive, in bytes. Chromium's own have up to some 300; the system's limit of 4096 includes the folder that it is unpacked into. */
export const MAX_PATH = 1_000
/** Headers that only describe the next entry (long names). */
const MAX_DESCRIPTION = 64 * 1024
/** Zeros after the end mark: tar fills its last record of 10 KiB, some tools more. */
const MAX_AFTER = 1024 * 1024

/** What is refused, by the type in the header. */
const REFUSED: Record<string, string> = {
  1: 'a hard link',
  2: 'a symbolic link',
  3: 'a device',
  4: 'a device',
  6: 'a FIFO',
  S: 'a sparse file',
}

/** Reads an archive from pieces of any size. Nothing is held but a header and a long name. @throws BadTar from `push` and `end`, and what the sink throws */
export class TarReader {
  readonly #limits: TarLimits
  readonly #sink: TarSink
  readonly #directories = new Set<string>()
  readonly #files = new Set<string>()
  /** What has come of a header, or of a description. */
  #part: Buffer[] = []
  #partLength = 0
  /** Bytes that are left of the current entry, and the zeros after it. */
  #left = 0
  #fill = 0
  #take: ((piece: Buffer) => void) | undefined
  #done: (() => void) | undefined
  #path: string | undefined
  #size: number | undefined
  #bytes = 0
  #after: number | undefined

  constructor(limits: TarLimits, sink: TarSink) {
    this.#limits = limits
    this.#sink = sink
  }

  push(piece: Buffer): void {
    for (let at = 0; at < piece.length;) {
      if (this.#after !== undefined) return this.#rest(piece.subarray(at))
      if (this.#left > 0) {
        const part = piece.subarray(at, at + this.#left)
        at += part.length
        this.#left -= part.length
        this.#take?.(part)
        if (this.#left === 0) this.#endOfEntry()
      } else if (this.#fill > 0) {
        const step = Math.min(this.#fill, piece.length - at)
        at += step
        this.#fill -= step
      } else {
        const part = piece.subarray(at, at + BLOCK - this.#partLength)
        at += part.length
        this.#gather(part)
        if (this.#partLength === BLOCK) this.#header(this.#gathered())
      }
    }
  }

  /** Call it at the end of the archive's bytes. */
  end(): void {
    if (this.#after === undefined) throw new BadTar('ends too early')
  }

  #gather(part: Buffer): void {
    this.#part.push(Buffer.from(part))
    this.#partLength += part.length
  }

  #gathered(): Buffer {
    const whole = this.#part.length === 1 ? this.#part[0]! : Buffer.concat(this.#part)
    this.#part = []
    this.#partLength = 0
    return whole
  }

  #rest(piece: Buffer): void {
    this.#after! += piece.length
    if (this.#after! > MAX_AFTER || piece.some((byte) => byte !== 0)) throw new BadTar('has something after its end')
  }

  #endOfEntry(): void {
    const done = this.#done
    this.#take = this.#done = undefined
    done?.()
  }

  #begin(size: number, take: ((piece: Buffer) => void) | undefined, done: () => void): void {
    this.#left = size
    this.#fill = (BLOCK - (size % BLOCK)) % BLOCK
    this.#take = take
    this.#done = done
    if (size === 0) this.#endOfEntry()
  }

  #header(block: Buffer): void {
    if (block.equals(ZEROS)) {
      this.#after = 0
      return
    }
    if (octal(block, 148, 8) !== checksum(block)) throw new BadTar('is not a tar archive, or is damaged: a header has a wrong checksum')
    const type = String.fromCharCode(block[156]!)
    const size = octal(block, 124, 12)
    if (type === 'x' || type === 'g' || type === 'L') return this.#describe(type, size)
    const name = this.#path ?? nameIn(block)
    const fileSize = this.#size ?? size
    this.#path = this.#size = undefined
    const path = pathOf(name)
    if (type === '5') {
      this.#directory(path)
      // A directory has no bytes, whatever its size says: other programs read none.
      return
    }
    // '7' is a file that old systems kept in one piece.
    if (!['0', '\0', '7'].includes(type)) throw new BadTar(`has ${REFUSED[type] ?? `an entry of the unknown type ${JSON.stringify(type)}`}: ${shown(name)}`)
    this.#file(path, fileSize)
  }

  #file(path: string, size: number): void {
    if (path === '') throw new BadTar('has a file without a name')
    const slash = path.lastIndexOf('/')
    if (slash > 0) this.#directory(path.slice(0, slash))
    if (this.#files.has(path) || this.#directories.has(path)) throw new BadTar(`has ${shown(path)} twice`)
    this.#files.add(path)
    this.#count()
    this.#charge(size)
    const { write, end } = this.#sink.file(path)
    this.#begin(size, write, end)
  }

  /** Tells the sink of a directory and those above it that are new. */
  #directory(path: string): void {
    if (path === '' || this.#directories.has(path)) return
    if (this.#files.has(path)) throw new BadTar(`has ${shown(path)} as a file and as a directory`)
    const slash = path.lastIndexOf('/')
    if (slash > 0) this.#directory(path.slice(0, slash))
    this.#directories.add(path)
    this.#count()
    this.#sink.directory(path)
  }

  #count(): void {
    if (this.#files.size + this.#directories.size > this.#limits.entries) throw new TooLarge(`has more than ${this.#limits.entries} files and directories`)
  }

  #charge(bytes: number): void {
    this.#bytes += bytes
    if (this.#bytes > this.#limits.bytes) throw new TooLarge(`has more than ${this.#limits.bytes} bytes when it is unpacked`)
  }

  /** A header for the next entry: its name or size, when they do not fit in its own. */
  #describe(type: string, size: number): void {
    if (size > MAX_DESCRIPTION) throw new BadTar('has a description of an entry that is too long')
    this.#charge(BLOCK + size)
    this.#begin(
      size,
      (piece) => this.#gather(piece),
      () => {
        const text = this.#gathered()
        if (type === 'L') this.#path = decoded(text.subarray(0, text.indexOf(0) < 0 ? undefined : text.indexOf(0)))
        else if (type === 'x') this.#records(text)
      },
    )
  }

  /** Records of the POSIX format: `length key=value`, each with a line break. */
  #records(text: Buffer): void {
    for (let at = 0; at < text.length;) {
      const space = text.indexOf(0x20, at)
      const length = Number(text.toString('latin1', at, space))
      if (space < 0 || !(length > space - at + 1) || at + length > text.length || text[at + length - 1] !== 0x0a)
        throw new BadTar('has a damaged description of an entry')
      const record = text.subarray(space + 1, at + length - 1)
      at += length
      const equals = record.indexOf(0x3d)
      const key = record.toString('latin1', 0, Math.max(0, equals))
      const value = record.subarray(equals + 1)
      if (key === 'path') this.#path = decoded(value)
      if (key === 'size') this.#size = decimal(value.toString('latin1'))
      if (key.startsWith('GNU.sparse')) throw new BadTar(`has ${REFUSED.S}`)
    }
  }
}

/** More than the limits allow. */
export class TooLarge extends BadTar {}

const shown = (name: string): string => JSON.stringify(name.length > 100 ? `${name.slice(0, 100)}…` : name)

const ZEROS = Buffer.alloc(BLOCK)

/** The sum of a header's bytes; its own field counts as spaces. */
function checksum(block: Buffer): number {
  let sum = 8 * 0x20
  for (let at = 0; at < BLOCK; at++) if (at < 148 || at >= 156) sum += block[at]!
  return sum
}

function octal(block: Buffer, from: number, length: number): number {
  // Sizes of 8 GiB and more are not octal. They are above every limit here.
  if (block[from]! & 0x80) throw new TooLarge('has a file of 8 GiB or more')
  const text = block
    .toString('latin1', from, from + length)
    .replace(/[\0 ]+$/, '')
    .trimStart()
  if (!/^[0-7]*$/.test(text)) throw new BadTar('is not a tar archive, or is damaged: a number in a header is none')
  return Number.parseInt(text || '0', 8)
}

function decimal(text: string): number {
  if (!/^\d{1,15}$/.test(text)) throw new BadTar('has a damaged description of an entry')
  return Number(text)
}

const textIn = (block: Buffer, from: number, length: number): Buffer => {
  const field = block.subarray(from, from + length)
  const end = field.indexOf(0)
  return end < 0 ? field : field.subarray(0, end)
}

/** The name in a header. Only the POSIX format has a prefix; in GNU's own there are times at its place. */
function nameIn(block: Buffer): string {
  const prefix = block.toString('latin1', 257, 263) === 'ustar\0' ? textIn(block, 345, 155) : Buffer.alloc(0)
  const name = textIn(block, 0, 100)
  return decoded(prefix.length > 0 ? Buffer.concat([prefix, Buffer.from('/'), name]) : name)
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
function decoded(bytes: Buffer): string {
  try {
    return utf8.decode(bytes)
  } catch {
    throw new BadTar('has a name that is not UTF-8')
  }
}

/** A name as a path below the archive's root; '' for the root. */
function pathOf(name: string): string {
  if (name.includes('\0')) throw new BadTar(`has a name with a zero byte: ${shown(name)}`)
  if (name.startsWith('/')) throw new BadTar(`has an absolute path: ${shown(name)}`)
  const parts = name.split('/').filter((part) => part !== '' && part !== '.')
  if (parts.includes('..')) throw new BadTar(`has a path with "..": ${shown(name)}`)
  if (parts.some((part) => Buffer.byteLength(part) > MAX_NAME)) throw new BadTar(`has a name of more than ${MAX_NAME} bytes: ${shown(name)}`)
  const path = parts.join('/')
  if (Buffer.byteLength(path) > MAX_PATH) throw new BadTar(`has a path of more than ${MAX_PATH} bytes: ${shown(name)}`)
  return path
}

/** The header of an entry, with a description before it when the path is long. The path of a directory ends with a slash. */
export function tarHeader(path: string, size: number, mtime: Date): Buffer {
  const name = Buffer.from(path)
  if (name.length <= 100) return headerBlock(name, path.endsWith('/') ? '5' : '0', size, mtime)
  const record = Buffer.from(paxRecord('path', path))
  return Buffer.concat([
    headerBlock(Buffer.from('@LongPath'), 'x', record.length, mtime),
    record,
    fillAfter(record.length),
    headerBlock(name.subarray(0, 100), path.endsWith('/') ? '5' : '0', size, mtime),
  ])
}

/** The zeros after the bytes of an entry. */
export const fillAfter = (size: number): Buffer => Buffer.alloc((BLOCK - (size % BLOCK)) % BLOCK)

/** The end mark. */
export const TAR_END = Buffer.alloc(2 * BLOCK)

/** The largest file that a header has a size for, in bytes. */
export const MAX_FILE = 8 * 1024 ** 3 - 1

/** The length at the beginning of a record counts itself. */
function paxRecord(key: string, value: string): string {
  const rest = ` ${key}=${value}\n`
  const length = Buffer.byteLength(rest)
  const digits = String(length + String(length).length).length
  return `${length + digits}${rest}`
}

function headerBlock(name: Buffer, type: string, size: number, mtime: Date): Buffer {
  const block = Buffer.alloc(BLOCK)
  name.copy(block, 0)
  const number = (value: number, at: number, length: number) => block.write(`${value.toString(8).padStart(length - 1, '0')}\0`, at, 'latin1')
  number(type === '5' ? 0o700 : 0o600, 100, 8)
  number(0, 108, 8)
  number(0, 116, 8)
  number(size, 124, 12)
  number(Math.max(0, Math.floor(mtime.getTime() / 1000)), 136, 12)
  block.write(type, 156, 'latin1')
  block.write('ustar\x0000', 257, 'latin1')
  block.write(`${checksum(block).toString(8).padStart(6, '0')}\0 `, 148, 'latin1')
  return block
}
