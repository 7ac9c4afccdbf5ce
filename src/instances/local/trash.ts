// Removes the files of ended sandboxes, in separate processes. Foreign programs wrote them: there may be any number, in folders of any depth and
// without access rights.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, mkdirSync, readdirSync, renameSync } from 'node:fs'
import type { Socket } from 'node:net'
import { basename, join } from 'node:path'
import { newId } from '../../base/ids.ts'
import type { Log } from '../../base/log.ts'
import { within } from '../../base/wait.ts'

/** Trees per remover. Further trees wait for the next remover, so that a command line stays short. */
const BATCH = 100
/** The same for the remover that outlives the service: 100 bytes per tree, of the 2 MB that a command line may have. */
const LAST_BATCH = 5_000
/** Retries after a remover that has left something: first wait, doubled up to the last. */
const RETRY_FIRST_MS = 1_000
const RETRY_LAST_MS = 60_000
/** How long a stopping service waits for its remover. After that the remover continues alone. */
const STOP_MS = 1_000
/** Bytes kept of a remover's error output. A hostile tree can cause one error per file. */
const MAX_COMPLAINT = 2_000

/**
 * Removes the given trees, and makes folders accessible when removing did not work. GNU rm and chmod walk by open folders, so no path is too long
 * for them. They read nothing from this process and outlive it; the next service finds what is left.
 */
const SCRIPT = `{ rm -rf -- "$@" || { chmod -R u+rwX -- "$@"; rm -rf -- "$@"; }; } 2>&1 | { head -c ${MAX_COMPLAINT}; cat >/dev/null; }`

/**
 * A folder of trees to be removed. Its content is the list of remaining work, so a restart forgets nothing. Only one remover runs at a time, even
 * when a killed service has left one (a lock on the folder). It runs at the lowest priority for CPU and disk.
 */
export class Trash implements AsyncDisposable {
  readonly #dir: string
  readonly #log: Log
  #isEmptying = false
  #timer: NodeJS.Timeout | undefined
  #retryMs = RETRY_FIRST_MS
  #stopped = false

  constructor(dir: string, log: Log) {
    this.#dir = dir
    this.#log = log
  }

  /**
   * Moves a tree out of its place at once; it is removed later. A missing tree is no error. A tree on another disk cannot be moved: then this resolves when it
   * has been removed. @throws when it can be neither moved nor removed; the tree is then still in its place
   */
  async discard(path: string): Promise<void> {
    try {
      this.#take(path)
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      if (code === 'ENOENT' && !existsSync(path)) return
      if (code !== 'EXDEV') throw error
      return this.remove(path)
    }
    this.empty()
  }

  /** Removes a tree in its place. Resolves when it is removed, for a caller that needs its space. @throws when it could not be removed */
  async remove(path: string): Promise<void> {
    const complaint = await this.#remove([path])
    if (existsSync(path)) throw new Error(`${path} could not be removed: ${complaint}`)
  }

  /** Begins to remove the content, and continues until nothing is left. */
  empty(): void {
    if (this.#stopped || this.#isEmptying) return
    clearTimeout(this.#timer)
    this.#isEmptying = true
    void this.#emptyAll()
      .then(
        (isEmpty) => isEmpty,
        (err: unknown) => (this.#log.error({ err, retryMs: this.#retryMs }, 'the trash could not be emptied yet'), false),
      )
      .then((isEmpty) => {
        this.#isEmptying = false
        if (isEmpty || this.#stopped) return
        this.#timer = setTimeout(() => this.empty(), this.#retryMs).unref()
        this.#retryMs = Math.min(RETRY_LAST_MS, this.#retryMs * 2)
      })
  }

  /** Waits a moment for the remover. Leaves the rest to one that outlives the service, and to the next start. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopped = true
    clearTimeout(this.#timer)
    try {
      const left = this.#left()
      if (left.length === 0) return
      // The running remover holds the lock. This one starts after it, for trees that were added later.
      await within('the trash to be emptied', STOP_MS, this.#remove(left.slice(0, LAST_BATCH)))
    } catch (error) {
      this.#log.info({ why: (error as Error).message }, 'files of ended sandboxes are left; the remover continues, and the next start removes the rest')
    }
  }

  #take(path: string): void {
    mkdirSync(this.#dir, { recursive: true, mode: 0o700 })
    const into = join(this.#dir, `${newId()}-${basename(path)}`)
    try {
      renameSync(path, into)
    } catch (error) {
      // Moving a folder changes its "..", so it has to be writable for us. Its parent folder is ours, so no other user can put a link in its
      // place.
      if ((error as NodeJS.ErrnoException).code !== 'EACCES') throw error
      chmodSync(path, 0o700)
      renameSync(path, into)
    }
  }

  #left(): string[] {
    return existsSync(this.#dir) ? readdirSync(this.#dir).map((name) => join(this.#dir, name)) : []
  }

  /** Resolves with true when nothing is left. */
  async #emptyAll(): Promise<boolean> {
    for (let trees = this.#left(); trees.length > 0 && !this.#stopped; trees = this.#left()) {
      const batch = trees.slice(0, BATCH)
      const complaint = await this.#remove(batch)
      const stuck = batch.filter((path) => existsSync(path))
      if (stuck.length > 0) {
        this.#log.warn({ trees: stuck.length, complaint, retryMs: this.#retryMs }, 'files of ended sandboxes could not be removed yet')
        return false
      }
      this.#retryMs = RETRY_FIRST_MS
    }
    return true
  }

  /** Runs a remover to its end; resolves with its error output. */
  async #remove(trees: readonly string[]): Promise<string> {
    const args = ['-n', '19', 'ionice', '-t', '-c', '3', 'flock', '--no-fork', this.#dir, '/bin/sh', '-c', SCRIPT, 'sh', ...trees]
    mkdirSync(this.#dir, { recursive: true, mode: 0o700 })
    const child = spawn('nice', args, { cwd: '/', detached: true, stdio: ['ignore', 'pipe', 'ignore'], env: { PATH: process.env.PATH, LC_ALL: 'C' } })
    const ended = once(child, 'close')
    // The child does not keep a stopping service alive. There is no pipe when it could not be started.
    child.unref()
    const output = child.stdout as Socket | undefined
    let said = ''
    output?.on('data', (chunk: Buffer) => (said += chunk.toString())).unref()
    await ended
    return said
  }
}
