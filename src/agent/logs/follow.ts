// Reads the lines of a file, to its end or as they are written. Handles rotation and truncation.
import { addAbortListener } from 'node:events'
import { constants, type Stats } from 'node:fs'
import { open, stat, type FileHandle } from 'node:fs/promises'
import { sleep } from '../../base/wait.ts'
import { onPath } from '../fs/faults.ts'
import { Lines } from './log-lines.ts'

/** How often a followed file is checked. */
const LOOK_MS = 100

/**
 * A program often notices a rotation a moment later and still writes to the old file. So switch to the new one after the old has not grown for this many
 * checks.
 */
const QUIET_LOOKS = 3

const READ_BYTES = 64 * 1024

/** Bytes read from a file without a size, such as those of /proc. */
const UNSIZED_BYTES = 1024 * 1024

/**
 * Opens a file for reading its lines. With `follow`, yields those that are written after this has resolved. After rotation the new file is read from its start,
 * after truncation the same file. A line is yielded when it ends, or when its file is rotated or truncated. Without `follow`, yields the existing lines. When
 * the file cannot be read any more, the last line gives the reason. The file is closed at the end, or when `signal` aborts.
 * @throws the fault of a file that cannot be opened, as for the other calls on files
 */
export async function openLines(path: string, follow: boolean, signal: AbortSignal): Promise<AsyncGenerator<string>> {
  signal.throwIfAborted()
  const opened = await onPath('path', path, () => openAtSize(path))
  const undo = new DisposableStack()
  const lines = linesOf(path, opened, follow, signal, undo)
  // Runs to its first yield. After that, the generator closes the file, also if nobody asks for a line.
  await lines.next()
  undo.use(addAbortListener(signal, () => void lines.return(undefined).catch(() => {})))
  return lines
}

interface Opened {
  file: FileHandle
  size: number
}

async function openAtSize(path: string): Promise<Opened> {
  const file = await openRegular(path)
  try {
    return { file, size: (await file.stat()).size }
  } catch (error) {
    await file.close()
    throw error
  }
}

const unreadable = (path: string, error: NodeJS.ErrnoException): string => `cannot read ${path}: ${wordsFor(error)}`

/** The first value is no line: it is yielded when the generator owns the file, and also ends `undo`. */
async function* linesOf(path: string, opened: Opened, follow: boolean, signal: AbortSignal, undo: DisposableStack): AsyncGenerator<string> {
  using _undo = undo
  const { size } = opened
  let { file } = opened
  try {
    yield ''
    const lines = new Lines()
    if (!follow) {
      // Stop at the current size: a program may write faster than this reads.
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
        const old = file
        // Assign it first, so that the new file is closed, too, when the reader leaves at the next line.
        file = next
        at = 0
        await old.close()
        yield* lines.rest()
      } else await sleep(LOOK_MS, signal)
    }
  } catch (error) {
    signal.throwIfAborted()
    yield unreadable(path, error as NodeJS.ErrnoException)
  } finally {
    await file.close()
  }
}

async function* piecesOf(file: FileHandle, from: number, to: number, lines: Lines, signal: AbortSignal): AsyncGenerator<string> {
  const buffer = Buffer.alloc(READ_BYTES)
  for (let at = from; at < to;) {
    signal.throwIfAborted()
    const { bytesRead } = await file.read(buffer, 0, Math.min(READ_BYTES, to - at), at)
    if (bytesRead === 0) return // the file was truncated
    yield* lines.add(buffer.subarray(0, bytesRead))
    at += bytesRead
  }
}

/** Whether the path now names another file, or none. The inode number is not reused while the file is open. */
async function isReplaced(path: string, file: FileHandle): Promise<boolean> {
  const [now, then] = await Promise.all([stat(path).catch(ignoreMissing), file.stat()])
  return now?.ino !== then.ino || now.dev !== then.dev
}

/** Opens a file without blocking on a pipe. @throws for anything but a regular file */
async function openRegular(path: string): Promise<FileHandle> {
  // Check first, because opening some devices has side effects.
  assertRegular(await stat(path))
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY)
  try {
    assertRegular(await file.stat())
    return file
  } catch (error) {
    await file.close()
    throw error
  }
}

function assertRegular(found: Stats): void {
  if (!found.isFile()) throw Object.assign(new Error('it is not a regular file'), { code: found.isDirectory() ? 'EISDIR' : 'ENODEV' })
}

function ignoreMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error
}

const WORDS: Record<string, string> = {
  ENOENT: 'there is no such file',
  ENOTDIR: 'there is no such file',
  EACCES: 'reading it is not permitted',
  EPERM: 'reading it is not permitted',
  ELOOP: 'its symbolic links form a loop',
  ENAMETOOLONG: 'its name is too long',
}

const wordsFor = (error: NodeJS.ErrnoException): string => WORDS[error.code ?? ''] ?? error.message
