// Reads regular files, whole or in part, as streams that hold one chunk at a time.
import { constants, statfsSync, type Stats } from 'node:fs'
import { open, type FileHandle } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { callbackify } from 'node:util'
import { fault } from '../../http/fault.ts'
import { rangeOf } from '../../http/range.ts'
import type { Bytes } from '../../http/route.ts'
import { onPath } from './faults.ts'
import { timeOf } from './info.ts'

/** Bytes per read; larger reads were not faster. */
const PIECE = 256 * 1024
/** The header's times are whole seconds: a recently written file may have another version of the same second (RFC 9110, 13.1.5). */
const UNSURE_MS = 2_000

/** Files of /proc report no length. They are read up to this size, in bytes; longer ones are not text (memory, page maps). */
const MAX_KERNEL_FILE = 1024 * 1024
/** statfs magic of /proc (linux/magic.h). */
const PROC_MAGIC = 0x9fa0

/** Opens a regular file for reading; anything else is refused before a byte is read. */
export async function openRegular(path: string | Buffer, follow = true): Promise<{ handle: FileHandle; stats: Stats }> {
  // Without O_NONBLOCK, opening a FIFO would block until a writer opens it.
  const handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY | (follow ? 0 : constants.O_NOFOLLOW))
  try {
    const stats = await handle.stat()
    if (stats.isDirectory()) throw fault.field('path', 'is a directory')
    if (!stats.isFile()) throw fault.field('path', 'is not a regular file')
    return { handle, stats }
  } catch (error) {
    await handle.close()
    throw error
  }
}

/**
 * Streams the bytes of an open file from `start` up to (not including) `end`. With `exact`, an early end of the file is an error, because a
 * Content-Length has been sent; without it, the stream just ends there. Closing the stream closes the file.
 */
export function pieces(handle: FileHandle, start: number, end: number, exact: boolean): Readable {
  let at = start
  let reading: Promise<void> = Promise.resolve()
  const next = async (stream: Readable): Promise<void> => {
    const { bytesRead, buffer } = await handle.read(Buffer.allocUnsafeSlow(Math.min(PIECE, end - at)), 0, undefined, at)
    at += bytesRead
    if (bytesRead > 0) stream.push(buffer.subarray(0, bytesRead))
    else if (exact) throw new Error(`the file ended at ${at}, ${end - at} bytes early`)
    else stream.push(null)
  }
  return new Readable({
    highWaterMark: PIECE,
    read() {
      if (at >= end) this.push(null)
      else reading = next(this).catch((error: Error) => void this.destroy(error))
    },
    destroy(error, done) {
      // Wait for the read in progress: after a close, another file may get the same descriptor.
      const closed = callbackify(() => reading.then(() => handle.close()))
      closed((failure) => done(failure ?? error))
    },
  })
}

/**
 * Answers `GET read_file`: the file, or the range that the caller asks for. With `unchangedSince` (If-Range), a file that has changed since then is
 * sent whole.
 */
export function readFile(path: string, range: string | undefined, unchangedSince?: string): Promise<Bytes> {
  return onPath('path', path, async () => {
    const { handle, stats } = await openRegular(path)
    try {
      if (stats.size === 0 && statfsSync(path).type === PROC_MAGIC) return await readKernelFile(handle)
      const headers = { 'accept-ranges': 'bytes', 'last-modified': timeOf(stats).toUTCString() }
      const isSame = unchangedSince === headers['last-modified'] && Date.now() - stats.mtimeMs > UNSURE_MS
      const asked = unchangedSince === undefined || isSame ? range : undefined
      const part = rangeOf(asked, stats.size)
      const { start, end } = part ?? { start: 0, end: stats.size }
      return {
        body: pieces(handle, start, end, true),
        ...(part && { status: 206 }),
        headers: { ...headers, 'content-length': String(end - start), ...(part && { 'content-range': `bytes ${start}-${end - 1}/${stats.size}` }) },
      }
    } catch (error) {
      await handle.close()
      throw error
    }
  })
}

async function readKernelFile(handle: FileHandle): Promise<Bytes> {
  const whole = Buffer.allocUnsafe(MAX_KERNEL_FILE + 1)
  let length = 0
  for (let read = -1; read !== 0 && length < whole.length; length += read)
    read = (await handle.read(whole, length, Math.min(PIECE, whole.length - length), length)).bytesRead
  await handle.close()
  if (length > MAX_KERNEL_FILE) throw fault.field('path', 'is a file of the kernel that is too long to read')
  return { body: whole.subarray(0, length), headers: {} }
}
