// An app's folder as one file and back: tar, compressed with zstd. Both run only inside a sandbox, because the result of a build may be hostile.
import { spawn, type ChildProcess } from 'node:child_process'
import { createWriteStream, readdirSync, type Dirent } from 'node:fs'
import { open, rm } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createZstdCompress, createZstdDecompress } from 'node:zlib'
import { endProcessGroup, killProcessGroup } from '../base/processes.ts'
import { within } from '../base/wait.ts'
import { SCRATCH } from './limits.ts'

/** No variables of the app: TAR_OPTIONS, for example, would change tar's behaviour. */
const ENVIRONMENT = { PATH: '/usr/bin:/bin', LC_ALL: 'C.UTF-8' }
/**
 * Files get the usual modes, whatever the service's umask is. tar ends at the end mark of its input; the rest is read as well, so that a broken pipe is always
 * an error.
 */
const TAR = ['-c', 'umask 022; tar "$@" && cat >/dev/null', 'tar']
/** Characters kept of tar's errors. They name files. */
const MAX_SAID = 1_000
/** A path that a call of the system accepts has at most 4095 bytes. */
const MAX_PATH_BYTES = 4_000
/** When tar has written or read everything, it only closes files and sets the times of folders. */
const TAR_END_MS = 60_000
/** tar's exit code when a file changed while it was read. */
const CHANGED = 1

/** The folder cannot be packed, or the packed code cannot be unpacked. The message contains the reason. */
export class CannotPack extends Error {}

/**
 * Packs the folder `app` into the file `into`. Files that no run could use are left out: files without read rights, and sockets. Sparse files stay sparse.
 * Owners are not kept. @throws CannotPack, or the signal's reason
 */
export async function packFolder(app: string, into: string, signal: AbortSignal): Promise<void> {
  assertPaths(app)
  const form = ['--create', '--file=-', '--format=gnu', '--sparse', '--one-file-system', '--ignore-failed-read', '--owner=0', '--group=0', '--numeric-owner']
  const tar = spawn('/bin/sh', [...TAR, ...form, `--exclude=./${SCRATCH}`, '--directory', app, '.'], {
    env: ENVIRONMENT,
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const ended = endOf(tar)
  try {
    await pipeline(tar.stdout, createZstdCompress(), createWriteStream(into, { mode: 0o600 }), { signal })
    const { code, said } = await within('tar to end', TAR_END_MS, ended)
    if (code !== 0 && code !== CHANGED) throw new CannotPack(said || `tar ended with ${code}`)
  } catch (error) {
    await rm(into, { force: true })
    // The first error explains more than a tar that ends late.
    await endProcessGroup('tar', tar, ended).catch(() => {})
    signal.throwIfAborted()
    throw error instanceof CannotPack ? error : new CannotPack((error as Error).message, { cause: error })
  }
}

/** The file made by {@link packFolder}. */
export async function openPacked(path: string): Promise<{ bytes: number; content: Readable }> {
  const file = await open(path)
  try {
    return { bytes: (await file.stat()).size, content: file.createReadStream() }
  } catch (error) {
    await file.close()
    throw error
  }
}

/** Unpacks a file of {@link packFolder} into the empty folder `app`. Set-uid bits are dropped. @throws CannotPack */
export async function unpackFolder(packed: Readable, app: string): Promise<void> {
  // The folder itself stays as it is: in a pod it belongs to root.
  const form = ['--extract', '--skip-old-files', '--file=-', '--no-same-owner', '--no-same-permissions', '--directory', app]
  const tar = spawn('/bin/sh', [...TAR, ...form], { env: ENVIRONMENT, detached: true, stdio: ['pipe', 'ignore', 'pipe'] })
  const ended = endOf(tar)
  const broken = await pipeline(packed, createZstdDecompress(), tar.stdin).then(
    () => undefined,
    (error: Error) => error, // its input is closed then, and it ends
  )
  const { code, said } = await within('tar to end', TAR_END_MS, ended)
    .catch((error: Error) => {
      throw new CannotPack(error.message, { cause: broken ?? error })
    })
    .finally(() => killProcessGroup(tar))
  // The error of a failed tar explains more than the broken pipe to it.
  if (code !== null && code !== 0) throw new CannotPack(said || `tar ended with ${code}`, { cause: broken })
  // Also when tar has succeeded: its input may end early, between two files.
  if (broken) throw new CannotPack(broken.message, { cause: broken })
  if (code === null) throw new CannotPack('tar was killed')
}

/** @throws CannotPack when a path below `app` is so long that tar could not unpack it */
function assertPaths(app: string): void {
  const folders = [app]
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop())
    for (const entry of entriesOf(folder)) {
      const path = `${folder}/${entry.name}`
      if (Buffer.byteLength(path) > MAX_PATH_BYTES) throw new CannotPack(`a path has more than ${MAX_PATH_BYTES} bytes: ${path.slice(0, MAX_SAID)}`)
      if (entry.isDirectory()) folders.push(path)
    }
}

function entriesOf(folder: string): Dirent[] {
  try {
    return readdirSync(folder, { withFileTypes: true })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EACCES') return [] // left out
    throw new CannotPack((error as Error).message, { cause: error })
  }
}

/** Resolves when the process has ended and all of its output is read. */
function endOf(tar: ChildProcess): Promise<{ code: number | null; said: string }> {
  const { promise, resolve, reject } = Promise.withResolvers<{ code: number | null; said: string }>()
  let said = ''
  tar.stderr!.on('data', (chunk: Buffer) => (said = (said + chunk.toString()).slice(0, MAX_SAID)))
  tar.on('error', reject)
  tar.on('close', (code) => resolve({ code, said: said.trim() }))
  promise.catch(() => {})
  return promise
}
