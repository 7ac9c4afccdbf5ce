// Tar archives: reading their entries one after the other, and writing. Only complete archives are accepted, with files and directories only.
import { once } from 'node:events'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { extract as makeExtract, pack as makePack, type Header } from 'tar-stream'
import { abortable, within } from '../wait.ts'
import { BadArchive, shown, TooLarge } from './contents.ts'

export interface TarEntry {
  /** As in the archive. */
  name: string
  kind: 'file' | 'directory'
  bytes: number
  /** Continues at its position when it is iterated again. Unread content is skipped. */
  content: AsyncIterable<Buffer>
}

/** The refused kinds of entries, by type. */
const REFUSED: Record<string, string> = {
  link: 'a hard link',
  symlink: 'a symbolic link',
  'character-device': 'a device',
  'block-device': 'a device',
  fifo: 'a FIFO',
}
/** The mark at the end: two blocks of zeros. */
const END_BYTES = 1024
/** Bytes of an archive apart from its files: per entry, and in total. Headers that describe the next entry may have megabytes. */
const ENTRY_OVERHEAD = 2 * 1024
const OVERHEAD = 1024 * 1024

/**
 * The entries of an archive. `maxBytes`: limit on its files.
 * @throws BadArchive, TooLarge, errors of `pieces`, or the signal's reason
 */
export async function* readTar(pieces: AsyncIterable<Buffer>, signal: AbortSignal, maxBytes = Infinity): AsyncGenerator<TarEntry> {
  const extract = makeExtract({ allowUnknownFormat: true } as object) // the types do not know it; v7 has no format
  let entries = 0
  let zeros = 0
  let bytes = 0
  async function* watched(): AsyncGenerator<Buffer> {
    for await (const piece of pieces) {
      bytes += piece.length
      if (bytes > maxBytes + OVERHEAD + ENTRY_OVERHEAD * entries) throw new TooLarge(`unpacks to more than ${maxBytes} bytes`)
      let at = piece.length
      while (at > 0 && piece[at - 1] === 0 && piece.length - at < END_BYTES) at--
      zeros = (at === 0 ? zeros : 0) + piece.length - at
      yield piece
    }
  }
  const reading = pipeline(watched, extract, { signal })
  reading.catch(() => {}) // the loop gets the error, or has ended
  try {
    for await (const source of extract) {
      signal.throwIfAborted()
      entries++
      const { name, size } = source.header
      const chunks = (source as unknown as AsyncIterable<Buffer>)[Symbol.asyncIterator]()
      const content = { [Symbol.asyncIterator]: () => ({ next: () => chunks.next().catch(inWords) }) }
      yield { name, kind: kindOf(source.header), bytes: size, content }
      for await (const _ of content);
    }
    await abortable(reading, signal)
  } catch (error) {
    signal.throwIfAborted()
    inWords(error)
  } finally {
    extract.destroy()
  }
  if (zeros < END_BYTES) throw new BadArchive('ends too early')
}

/** @throws BadArchive for all but files and directories */
function kindOf({ name, type, pax }: Header): TarEntry['kind'] {
  const isSparse = Object.keys(pax ?? {}).some((key) => key.startsWith('GNU.sparse'))
  if (isSparse || (type !== 'file' && type !== 'contiguous-file' && type !== 'directory'))
    throw new BadArchive(`has ${isSparse ? 'a sparse file' : (REFUSED[type ?? ''] ?? 'an entry of an unknown type')}: ${shown(name)}`)
  // Bytes that are not UTF-8 have been replaced.
  if (name.includes('\ufffd')) throw new BadArchive('has a name that is not UTF-8')
  return type === 'directory' ? 'directory' : 'file'
}

/** The library describes faults of an archive by messages only. */
function inWords(error: unknown): never {
  const message = error instanceof Error ? error.message : ''
  if (message.startsWith('Unexpected end of data')) throw new BadArchive('ends too early')
  if (/^(Invalid (tar )?header|Header exceeds)/.test(message)) throw new BadArchive('is not a tar archive, or is damaged')
  throw error
}

/** A reader that takes nothing for this long is given up, such as a pipe to a program that hangs. */
const STALL_MS = 600_000
/** The latest time that a header can have for every program. */
const LATEST_MS = (2 ** 31 - 1) * 1000

export class TarWriter {
  readonly #pack = makePack()
  readonly #signal: AbortSignal
  /** The archive, which can be read while entries are added. */
  readonly archive: Readable = Readable.from(this.#pack, { objectMode: false })

  constructor(signal: AbortSignal) {
    this.#signal = signal
  }

  /**
   * Adds a file whose content has exactly `bytes` bytes; a name that ends with a slash is a directory. Only the owner may read it.
   * @throws when the content has more or fewer bytes, or the reader has left; errors of the content; the signal's reason
   */
  async add(name: string, bytes: number, content: AsyncIterable<Uint8Array> | Iterable<Uint8Array>, mtime: Date): Promise<void> {
    const type = name.endsWith('/') ? 'directory' : 'file'
    const time = new Date(Math.min(Math.max(0, mtime.getTime()), LATEST_MS))
    const done = Promise.withResolvers<void>()
    done.promise.catch(() => {})
    const header = { name, size: bytes, type, mode: type === 'file' ? 0o600 : 0o700, mtime: time } as const
    const entry = this.#pack.entry(header, (error) => (error ? done.reject(error) : done.resolve()))
    entry.on('error', () => {}) // the waits get it
    let left = bytes
    if (type === 'file') {
      for await (const chunk of content) {
        this.#signal.throwIfAborted()
        left -= chunk.length
        if (left < 0) break
        if (!entry.write(chunk)) await within('the reader of an archive', STALL_MS, once(entry, 'drain', { signal: this.#signal }))
      }
      if (left !== 0) throw new Error(`${name} has not ${bytes} bytes any more`)
      entry.end(null)
    }
    await within('the reader of an archive', STALL_MS, done.promise, this.#signal)
  }

  /** All entries are added. */
  end(): void {
    this.#pack.finalize()
  }

  /** Aborts the archive: its reader gets the error. */
  destroy(error: Error): void {
    this.#pack.destroy(error)
  }
}
