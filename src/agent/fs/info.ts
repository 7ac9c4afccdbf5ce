// Reads kind, size, permissions and time of files: one path, or a whole directory.
import { lstatSync, type Stats } from 'node:fs'
import { readdir, stat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { within } from '../../base/wait.ts'
import { fault } from '../../http/fault.ts'
import type { FileInfo } from './contract.ts'
import { onPath } from './faults.ts'
import { isTemporary } from './stage.ts'

/** The longest list, in entries: some 20 MB of JSON. */
export const MAX_LISTED = 100_000

/** Entries per turn of the event loop: stat takes 2 us each, but 20 us through Node's thread pool. */
const AT_ONCE = 200

/** Lists are built one at a time, because a long one takes 100 MB. The timeout of waiting for a turn, in milliseconds. */
const TURN_MS = 60_000
let last: Promise<void> = Promise.resolve()

const KIND: Record<number, string> = { 0o140000: 's', 0o120000: 'l', 0o100000: '-', 0o060000: 'b', 0o040000: 'd', 0o020000: 'c', 0o010000: 'p' }

/** Permissions as `ls -l` shows them: `drwxr-xr-t`, `-rwsr-xr-x`. */
export function lsMode(mode: number): string {
  const three = (bits: number, special: boolean, letter: string) =>
    (bits & 4 ? 'r' : '-') + (bits & 2 ? 'w' : '-') + (special ? (bits & 1 ? letter : letter.toUpperCase()) : bits & 1 ? 'x' : '-')
  return (
    (KIND[mode & 0o170000] ?? '?') +
    three(mode >> 6, (mode & 0o4000) !== 0, 's') +
    three(mode >> 3, (mode & 0o2000) !== 0, 's') +
    three(mode, (mode & 0o1000) !== 0, 't')
  )
}

/** The range of a four-digit year; a file's time may be outside it. */
const [FIRST_MS, LAST_MS] = [Date.parse('0001-01-01'), Date.parse('9999-12-31')]
export const timeOf = ({ mtimeMs }: Stats): Date => new Date(Math.min(Math.max(mtimeMs, FIRST_MS), LAST_MS))

const describe = (name: string, path: string, stats: Stats): FileInfo => ({
  name,
  path,
  is_dir: stats.isDirectory(),
  size_bytes: stats.isDirectory() ? 0 : stats.size,
  mode: lsMode(stats.mode),
  mod_time: timeOf(stats).toISOString(),
})

/** Information about a path; follows links. */
export const fileInfo = (path: string): Promise<FileInfo> => onPath('path', path, async () => describe(basename(path) || '/', path, await stat(path)))

/** Information about every entry of a directory, sorted by the names' bytes. Does not follow links. */
export async function listFiles(path: string, signal: AbortSignal): Promise<FileInfo[]> {
  const before = last
  const { promise, resolve } = Promise.withResolvers<void>()
  last = promise
  try {
    await within('the turn of a list', TURN_MS, before, signal)
    return await list(path, signal)
  } finally {
    // A waiter that times out keeps its place until its turn, so later waiters cannot overtake earlier ones.
    void before.then(resolve)
  }
}

async function list(path: string, signal: AbortSignal): Promise<FileInfo[]> {
  // As bytes, because names need not be UTF-8; invalid bytes are shown as U+FFFD.
  const names = (await onPath('path', path, () => readdir(path, { encoding: 'buffer' }))).sort(Buffer.compare)
  if (names.length > MAX_LISTED) throw fault.field('path', `has ${names.length} entries, more than the ${MAX_LISTED} that can be listed`)
  const slash = Buffer.from(path === '/' ? '/' : `${path}/`)
  const found: FileInfo[] = []
  for (const [index, raw] of names.entries()) {
    if (index % AT_ONCE === AT_ONCE - 1) await setImmediate(undefined, { signal })
    const name = raw.toString()
    if (isTemporary(name)) continue
    // Skip an entry that was deleted meanwhile. But a directory that may be read and not entered is an error for the caller.
    const stats = await onPath('path', path, async () => lstatSync(Buffer.concat([slash, raw]), { throwIfNoEntry: false }))
    if (stats) found.push(describe(name, join(path, name), stats))
  }
  return found
}
