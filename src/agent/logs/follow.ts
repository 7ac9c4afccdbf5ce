// The lines of a file, to its end or as they are written, over rotation and truncation.
import { constants } from 'node:fs'
import { open, stat, type FileHandle } from 'node:fs/promises'
import { sleep } from '../../base/wait.ts'
import { Lines } from './lines.ts'

/** How often a followed file is looked at. */
const LOOK_MS = 100

/** Whoever writes to a rotated file is often told of it a moment later; so the new one is gone on with when the old has been quiet for so many looks. */
const QUIET_LOOKS = 3

const READ_BYTES = 64 * 1024

/** Read of files that tell no size, as those of /proc. */
const UNSIZED_BYTES = 1024 * 1024

/**
 * With `follow`, the lines written from now on: a file that takes its place (rotation) is read from its start, one that became
 * shorter (truncation) too. A line is told when it ends, or when its file is rotated or truncated. Without, the lines that are there.
 * What cannot be read is told in one line of its own, and that is the last one.
 */
export async function* readLines(path: string, follow: boolean, signal: AbortSignal): AsyncGenerator<string> {
  let file: FileHandle | undefined
  try {
    file = await openRegular(path)
    const { size } = await file.stat()
    const lines = new Lines()
    if (!follow) {
      // Not to wherever the end is by then: somebody may write faster than this is read.
      yield* piecesOf(file, 0, size === 0 ? UNSIZED_BYTES : size, lines, signal)
      yield* lines.rest()
      return
    }
    let at = size
    let quiet = 0
    for (;;) {
      const replaced = await isReplaced(path, file)
      const { size: now } = await file.stat()
      quiet = replaced && now === at ? quiet + 1 : 0
      if (now < at) {
        yield* lines.rest()
        at = 0
      }
      if (now > at) {
        yield* piecesOf(file, at, now, lines, signal)
        at = now
      }
      const next = quiet >= QUIET_LOOKS ? await openRegular(path).catch(ignoreMissing) : undefined
      if (next) {
        yield* lines.rest()
        await file.close()
        file = next
        at = 0
      } else await sleep(LOOK_MS, signal)
    }
  } catch (error) {
    signal.throwIfAborted()
    yield `cannot read ${path}: ${wordsFor(error as NodeJS.ErrnoException)}`
  } finally {
    await file?.close()
  }
}

async function* piecesOf(file: FileHandle, from: number, to: number, lines: Lines, signal: AbortSignal): AsyncGenerator<string> {
  const buffer = Buffer.alloc(READ_BYTES)
  for (let at = from; at < to;) {
    signal.throwIfAborted()
    const { bytesRead } = await file.read(buffer, 0, Math.min(READ_BYTES, to - at), at)
    if (bytesRead === 0) return // it became shorter
    yield* lines.add(buffer.subarray(0, bytesRead))
    at += bytesRead
  }
}

/** Whether the name now leads elsewhere, or nowhere. The open file's number is not given to another as long as it is open. */
async function isReplaced(path: string, file: FileHandle): Promise<boolean> {
  const [now, then] = await Promise.all([stat(path).catch(ignoreMissing), file.stat()])
  return now?.ino !== then.ino || now.dev !== then.dev
}

/** Opens a file without waiting for whoever else is at a pipe. @throws for whatever is no regular file */
async function openRegular(path: string): Promise<FileHandle> {
  // A look before: opening alone does something to some devices.
  if (!(await stat(path)).isFile()) throw new Error('it is no regular file')
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY)
  if ((await file.stat()).isFile()) return file
  await file.close()
  throw new Error('it is no regular file')
}

function ignoreMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error
}

const WORDS: Record<string, string> = {
  ENOENT: 'there is no such file',
  ENOTDIR: 'there is no such file',
  EACCES: 'it may not be read',
  EPERM: 'it may not be read',
  ELOOP: 'its links lead in a circle',
  ENAMETOOLONG: 'its name is too long',
}

const wordsFor = (error: NodeJS.ErrnoException): string => WORDS[error.code ?? ''] ?? error.message
