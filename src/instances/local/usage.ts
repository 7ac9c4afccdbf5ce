// Counts what sandboxes use where the kernel does not enforce a limit, and ends those that exceed theirs. Also knows which sandbox uses most of
// the disk.
import { execFile } from 'node:child_process'
import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Log } from '../../base/log.ts'
import type { ProcessName } from '../../base/processes.ts'
import { isRoot } from '../../base/user.ts'
import { sleep } from '../../base/wait.ts'
import type { Exit, Instance } from '../driver.ts'
import { diskOf, imageOf, type Quota } from './storage.ts'

/** The content of folders. */
export interface Size {
  bytes: number
  /** Files, folders and links. */
  inodes: number
}

/** The settings by which a sandbox is counted. */
export interface Counted {
  disk: Quota
  /** Whether the kernel bounds its disk. */
  image: boolean
  /** Folders outside its own directory that it writes to. They are always counted. */
  shared: string[]
  /** The content of these folders before its start, which does not count for it. Absent if they were empty. */
  sharedBefore?: Size
  /** Undefined where the kernel bounds its memory. */
  memoryBytes: number | undefined
}

interface Sandbox extends Pick<Instance, 'id' | 'exited'> {
  readonly dir: string
  live(): ProcessName[]
  stopFor(exit: Exit): Promise<void>
}

/** The wait between two counts of the same sandbox: at least this, and long enough that counting takes a twentieth of the time. */
const LOOK_MS = 2_000
const IDLE_FACTOR = 20
/** Counting a million files takes some seconds. A folder that takes longer is too full. */
const WALK_MS = 30_000
/** Limit on deleted files that are still open. A sandbox may have many more, which are not counted. */
const MAX_DESCRIPTORS = 5_000
/** A smaller use is not worth an end: a browser's own profile has 20 MB. */
const HOG_BYTES = 64 * 1024 * 1024
const PAGE_BYTES = 4096

const MIB = 1024 * 1024
const run = promisify(execFile)

export class Usage {
  readonly #log: Log
  readonly #signal: AbortSignal
  readonly #counted = new Map<string, { sandbox: Sandbox; counted: Counted }>()
  readonly #reserved = new Set<{ folder: string }>()
  readonly #stops = new WeakMap<Sandbox, AbortController>()

  /** Counting ends when `signal` aborts: sandboxes that still run then belong to another service. */
  constructor(log: Log, signal: AbortSignal) {
    this.#log = log
    this.#signal = signal
  }

  /** Counts a sandbox until it has ended, or {@link forget}. */
  count(sandbox: Sandbox, counted: Counted): void {
    const stop = new AbortController()
    this.#stops.set(sandbox, stop)
    this.#counted.set(sandbox.id, { sandbox, counted })
    void sandbox.exited.then(() => this.forget(sandbox))
    const signal = AbortSignal.any([stop.signal, this.#signal])
    if (!counted.image || counted.shared.length > 0) void this.#watch(sandbox, signal, () => tooMuchDisk(sandbox, counted))
    const { memoryBytes } = counted
    if (memoryBytes !== undefined) void this.#watch(sandbox, signal, () => tooMuchMemory(sandbox, memoryBytes))
  }

  /** Stops counting a sandbox. */
  forget(sandbox: Sandbox): void {
    this.#stops.get(sandbox)?.abort(new Error('the sandbox is not counted any more'))
    if (this.#counted.get(sandbox.id)?.sandbox === sandbox) this.#counted.delete(sandbox.id)
  }

  /** Whether a sandbox is counted. */
  has(id: string): boolean {
    return this.#counted.has(id)
  }

  /** Makes a folder count as filled for a sandbox that is about to start, until the result is disposed. */
  reserve(folder: string): Disposable {
    const reservation = { folder }
    this.#reserved.add(reservation)
    return { [Symbol.dispose]: () => void this.#reserved.delete(reservation) }
  }

  /** Whether a counted sandbox fills a folder outside its own, or more than `own` sandboxes have reserved the folder. */
  isFilled(folder: string, own = 0): boolean {
    return (
      [...this.#reserved].filter((one) => one.folder === folder).length > own ||
      [...this.#counted.values()].some(({ counted }) => counted.shared.includes(folder))
    )
  }

  /** Ends the sandbox that uses most of the disk, among the counted ones and `others`; undefined when none uses much. */
  async endLargest(others: readonly { sandbox: Sandbox; counted: Counted }[] = []): Promise<string | undefined> {
    const sizes = await Promise.all(
      [...this.#counted.values(), ...others].map(async ({ sandbox, counted }) => ({ sandbox, bytes: await held(sandbox, counted) })),
    )
    const largest = sizes.toSorted((a, b) => b.bytes - a.bytes)[0]
    if (largest === undefined || largest.bytes < HOG_BYTES) return undefined
    const reason = `the disk of the machine is full, and it used most of it (${Math.round(largest.bytes / MIB)} MiB)`
    await largest.sandbox.stopFor({ reason, limit: 'disk' })
    return largest.sandbox.id
  }

  async #watch(sandbox: Sandbox, signal: AbortSignal, look: () => Promise<Exit | undefined>): Promise<void> {
    while (!signal.aborted) {
      const began = performance.now()
      try {
        const exit = await look()
        if (exit && !signal.aborted) return await sandbox.stopFor(exit)
      } catch (err) {
        if (!signal.aborted) this.#log.warn({ err, instance: sandbox.id }, 'the use of a sandbox could not be counted')
      }
      await sleep(Math.max(LOOK_MS, IDLE_FACTOR * (performance.now() - began)), signal).catch(() => {})
    }
  }
}

async function tooMuchDisk(sandbox: Sandbox, counted: Counted): Promise<Exit | undefined> {
  const quota = counted.disk
  const [own, shared] = await Promise.all([sizeOf(counted.image ? [] : [diskOf(sandbox.dir)]), added(counted)])
  const [bytes, inodes] = [own.bytes + shared.bytes, own.inodes + shared.inodes]
  if (inodes > quota.inodes) return { limit: 'disk', reason: `it has ${inodes} files on disk; ${quota.inodes} are allowed` }
  const all = bytes + (bytes > quota.bytes ? 0 : await deleted(sandbox))
  if (all > quota.bytes) return { limit: 'disk', reason: `it has ${Math.round(all / MIB)} MiB on disk; ${quota.bytes / MIB} are allowed` }
  return undefined
}

async function tooMuchMemory(sandbox: Sandbox, memoryBytes: number): Promise<Exit | undefined> {
  let bytes = 0
  for (const { pid } of sandbox.live()) {
    // Resident pages without those of files and of shared memory: close to the private memory of the processes.
    const [, resident = 0, shared = 0] = (await readFile(`/proc/${pid}/statm`, 'utf8').catch(() => '')).split(' ').map(Number)
    bytes += (resident - shared) * PAGE_BYTES
  }
  if (bytes <= memoryBytes) return undefined
  return { limit: 'memory', reason: `it uses ${Math.round(bytes / MIB)} MiB of memory; ${memoryBytes / MIB} are allowed` }
}

/** A sandbox's use of the machine's disk. */
async function held(sandbox: Sandbox, counted: Counted): Promise<number> {
  const { image } = counted
  const own = image ? stat(imageOf(sandbox.dir)).then(({ blocks }) => blocks * 512) : sizeOf([diskOf(sandbox.dir)]).then(({ bytes }) => bytes)
  const parts = [own, added(counted).then(({ bytes }) => bytes), image ? 0 : deleted(sandbox)]
  return (await Promise.all(parts.map((part) => Promise.resolve(part).catch(() => 0)))).reduce((sum, bytes) => sum + bytes, 0)
}

/** A sandbox's additions to the folders that it shares with others. */
async function added({ shared, sharedBefore: before }: Counted): Promise<Size> {
  const { bytes, inodes } = await sizeOf(shared)
  return { bytes: Math.max(0, bytes - (before?.bytes ?? 0)), inodes: Math.max(0, inodes - (before?.inodes ?? 0)) }
}

/** Counts the content of folders; a missing one counts as empty. If counting takes too long, the number of files is Infinity. */
export async function sizeOf(folders: string[]): Promise<Size> {
  const [bytes, inodes] = await Promise.all([du(folders, '--block-size=1'), du(folders, '--inodes')])
  return { bytes, inodes }
}

async function du(folders: string[], what: string): Promise<number> {
  if (folders.length === 0) return 0
  // Root of a user namespace of ours may read folders that a sandbox has closed to its own user, who is also the service's.
  const asOwner = isRoot() ? [] : ['unshare', '--user', '--map-root-user']
  const [file, ...args] = [...asOwner, 'nice', '-n', '19', 'du', '-s', '-x', what, '--', ...folders]
  // It also exits with 1 when a file disappears during the count. Its output is still usable.
  const said = await run(file!, args, { timeout: WALK_MS, killSignal: 'SIGKILL' }).catch((error: { killed?: boolean; stdout?: string }) => {
    if (error.killed) return { stdout: 'Infinity\t' }
    return { stdout: error.stdout ?? '' }
  })
  return said.stdout.split('\n').reduce((sum, line) => sum + (line === '' ? 0 : Number(line.split('\t')[0])), 0)
}

/** Bytes of files that were deleted from its disk and are still open in a process. */
async function deleted(sandbox: Sandbox): Promise<number> {
  const { dev } = await stat(diskOf(sandbox.dir))
  const sizes = new Map<number, number>()
  let left = MAX_DESCRIPTORS
  for (const { pid } of sandbox.live()) {
    const dir = `/proc/${pid}/fd`
    for (const fd of await readdir(dir).catch(() => [])) {
      if (left-- <= 0) break
      const file = await stat(join(dir, fd)).catch(() => undefined)
      if (file?.isFile() && file.nlink === 0 && file.dev === dev) sizes.set(file.ino, file.blocks * 512)
    }
  }
  return [...sizes.values()].reduce((sum, bytes) => sum + bytes, 0)
}
