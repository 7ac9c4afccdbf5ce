// A disk buffer between a recording and its reader: holds bytes until the reader has them. The session cannot see it, and it ends with the agent.
import { constants } from 'node:fs'
import { open, unlink, type FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { newId } from '../../base/ids.ts'
import { Notifier } from '../../base/notifier.ts'
import { Mutex } from '../../base/mutex.ts'
import { fault } from '../../http/fault.ts'

/** Bytes per read. */
const PIECE = 256 * 1024

interface Segment {
  file: FileHandle
  start: number
  end: number
}

/** A file that grows at one end and is freed at the other. */
export class DiskBuffer implements AsyncDisposable {
  readonly #dir: string
  readonly #segmentBytes: number
  readonly #turns = new Mutex()
  readonly #notifier = new Notifier()
  readonly #disposed = new AbortController()
  #segments: Segment[] = []
  #isClosed = false
  /** Bytes that have been written completely. */
  length = 0

  constructor(dir: string, segmentBytes: number) {
    this.#dir = dir
    this.#segmentBytes = segmentBytes
  }

  /** Appends all of the bytes, or none when it throws. */
  append(bytes: Buffer): Promise<void> {
    return this.#turns.run(async () => {
      let last = this.#segments.at(-1)
      if (!last || last.end - last.start >= this.#segmentBytes) {
        last = { file: await openHidden(this.#dir), start: this.length, end: this.length }
        this.#segments.push(last)
      }
      for (let done = 0; done < bytes.length;) done += (await last.file.write(bytes, done, bytes.length - done, last.end - last.start + done)).bytesWritten
      last.end += bytes.length
      this.length += bytes.length
      this.#notifier.notify()
    })
  }

  /** No more is appended; readers end after the last byte. */
  close(): void {
    this.#isClosed = true
    this.#notifier.notify()
  }

  /** Streams the bytes from `from` on as they are appended, at most `limit`. Frees the bytes before `from`. */
  async read(from: number, limit: number, signal: AbortSignal): Promise<Readable> {
    if (from > this.length) throw fault.conflict(`there are only ${this.length} bytes`)
    await this.#turns.run(() => this.#forget(from))
    if (from < (this.#segments[0]?.start ?? this.length)) throw fault.conflict(`the bytes before ${this.#segments[0]?.start ?? this.length} are gone`)
    return Readable.from(this.#pieces(from, from + limit, AbortSignal.any([signal, this.#disposed.signal])), { objectMode: false, highWaterMark: PIECE })
  }

  async *#pieces(from: number, end: number, signal: AbortSignal): AsyncGenerator<Buffer> {
    let at = from
    while (at < end) {
      signal.throwIfAborted()
      if (at === this.length) {
        if (this.#isClosed) return
        await this.#notifier.next(signal)
        continue
      }
      // Take a turn, so that the file is not closed during the read.
      const piece = await this.#turns.run(async () => {
        const segment = this.#segments.find(({ start, end: stop }) => start <= at && at < stop)!
        const wanted = Math.min(PIECE, segment.end - at, end - at)
        const { bytesRead, buffer } = await segment.file.read(Buffer.allocUnsafe(wanted), 0, wanted, at - segment.start)
        if (bytesRead !== wanted) throw new Error('a file of the disk buffer is shorter than what was written to it')
        return buffer
      })
      at += piece.length
      yield piece
    }
  }

  async #forget(before: number): Promise<void> {
    while (this.#segments.length > 0 && this.#segments[0]!.end <= before && this.#segments[0]!.end - this.#segments[0]!.start >= this.#segmentBytes)
      await this.#segments.shift()!.file.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#disposed.abort(new Error('the recording was dropped'))
    this.close()
    await this.#turns.run(async () => {
      for (const { file } of this.#segments.splice(0)) await file.close()
    })
  }
}

/** Linux: a file in a folder that never gets a name (asm-generic/fcntl.h); Node does not define it. */
const O_TMPFILE = 0o20000000 | constants.O_DIRECTORY

// A file without a name: the session cannot see it, and the disk space is freed when the agent ends in any way.
async function openHidden(dir: string): Promise<FileHandle> {
  const unnamed = await open(dir, constants.O_RDWR | O_TMPFILE, 0o600).catch(() => undefined)
  if (unnamed) return unnamed
  // Not every file system supports that; there the file has a name for a moment.
  const path = join(dir, `.recording-${newId()}`)
  const file = await open(path, constants.O_RDWR | constants.O_CREAT | constants.O_EXCL, 0o600)
  await unlink(path)
  return file
}
