// The directories of one watch: which of them the kernel watches, and what its events mean. Gaps are told, never passed over.
import { lstatSync } from 'node:fs'
import { readdir, stat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { fault } from '../../http/fault.ts'
import { gap } from './backlog.ts'
import type { WatchEvent } from './contract.ts'
import { fileFault, onPath } from './faults.ts'
import { IN, openInotify, type Inotify, type KernelEvent } from './inotify.ts'
import { isTemporary } from './stage.ts'

/** Directories of one watch. The kernel's own limit for a user is some ten thousands and up. */
export const MAX_DIRECTORIES = 10_000

/** Directories looked into at once. */
const AT_ONCE = 16

/** Renames of our own whose second half is still to come; there is one for each upload that ends at this moment. */
const MAX_PLACED = 1_000

const CHANGES = IN.CREATE | IN.MODIFY | IN.DELETE | IN.MOVED_FROM | IN.MOVED_TO | IN.ONLYDIR | IN.EXCL_UNLINK
const OF_ROOT = CHANGES | IN.DELETE_SELF | IN.MOVE_SELF
const OF_INNER = CHANGES | IN.DONT_FOLLOW

/** Where nothing tells of changes. */
const KERNEL = ['/proc', '/sys']
const isKernels = (path: string): boolean => KERNEL.some((root) => path === root || path.startsWith(`${root}/`))

/** A directory that the kernel watches. */
interface Directory {
  path: string
  /** The last round of looking at everything that it was found in. */
  round: number
  /** Being looked into, or about to be. */
  fresh?: Fresh | undefined
  /** The rename that took it from where it was, as long as nobody knows where to. */
  leaving?: number | undefined
}

/** What is known of a directory that is looked into: until that is done, events may tell of what it had before. */
interface Fresh {
  /** What was in it before it was watched is not told: it is old, not new. */
  quiet: boolean
  /** Names that events have told of, which know better than a list. */
  seen: Set<string>
  look?: Look
}

/** A directory to be watched and looked into. */
interface Look {
  path: string
  quiet: boolean
  round: number
  /** Another look does better. */
  cancelled?: boolean
}

/** A directory that was moved from `path`, with what was known below it then. */
interface Moved {
  path: string
  directories: Directory[]
  looks: Look[]
}

export interface Tree extends AsyncDisposable {
  /** Settles when the watched directory is no more; rejects when watching has failed. */
  ended: Promise<void>
}

/**
 * Watches a directory, with `recursive` everything below it, and tells what happens from the moment it resolves on. A
 * directory that appears, made or moved, is looked into once it is watched: CREATE of it is followed by CREATE of all it has,
 * and by WRITE of what is not empty.
 */
export async function watchTree(root: string, recursive: boolean, tell: (event: WatchEvent) => void, signal: AbortSignal): Promise<Tree> {
  if (!(await onPath('path', root, () => stat(root))).isDirectory()) throw fault.field('path', 'is not a directory')
  if (isKernels(root)) throw fault.field('path', 'is where the kernel tells of no changes')
  const watcher = new Watcher(root, recursive, tell)
  await using undo = new AsyncDisposableStack()
  const inotify = undo.use(await openInotify((event) => watcher.onEvent(event), signal))
  await watcher.start(inotify, signal)
  const owner = undo.move()
  return { ended: watcher.ended, [Symbol.asyncDispose]: () => owner.disposeAsync() }
}

class Watcher {
  readonly #root: string
  readonly #recursive: boolean
  readonly #tell: (event: WatchEvent) => void
  readonly #ended = Promise.withResolvers<void>()
  readonly ended = this.#ended.promise
  readonly #watched = new Map<number, Directory>()
  readonly #waiting: Look[] = []
  readonly #looking = new Set<Look>()
  #working = false
  #round = 0
  /** Everything is being looked at again, for events were lost; and whether that has come across directories that were not watched. */
  #recovering = false
  #foundMore = false
  /** By the number of the rename, until it is known where to. */
  readonly #moved = new Map<number, Moved>()
  /** Renames of what we have written ourselves. */
  readonly #placed = new Set<number>()
  #inotify!: Inotify
  #started = false
  #full = false
  #over = false

  constructor(root: string, recursive: boolean, tell: (event: WatchEvent) => void) {
    this.#root = root
    this.#recursive = recursive
    this.#tell = tell
    this.ended.catch(() => {})
  }

  async start(inotify: Inotify, signal: AbortSignal): Promise<void> {
    this.#inotify = inotify
    void inotify.ended.then(() => this.#ended.reject(new Error('the program that watches has ended')))
    this.#waiting.push({ path: this.#root, quiet: true, round: 0 })
    await this.#work(signal)
    this.#started = true
  }

  // ---- what happens ----

  onEvent({ watch, mask, cookie, name }: KernelEvent): void {
    if (mask & IN.Q_OVERFLOW) return this.#onOverflow()
    const directory = this.#watched.get(watch)
    if (!directory) return
    const isRoot = directory.path === this.#root
    if (mask & (IN.DELETE_SELF | IN.MOVE_SELF)) return this.#onRootGone(mask & IN.DELETE_SELF ? 'DELETE' : 'RENAME')
    if (mask & IN.IGNORED) {
      this.#watched.delete(watch)
      // Unmounted, or its end is all that is left of its deletion.
      if (isRoot) this.#onRootGone('DELETE')
    } else if (name !== '' && directory.leaving === undefined) {
      // One that is leaving is no longer where we know it; if it comes back, what is in it is told of anew.
      this.#onChange(directory, mask, cookie, name)
    }
  }

  #onChange(directory: Directory, mask: number, cookie: number, name: string): void {
    const path = join(directory.path, name)
    const isDir = (mask & IN.ISDIR) !== 0
    const tell = (type: 'CREATE' | 'WRITE' | 'DELETE' | 'RENAME') => this.#tell({ type, path, name, is_dir: isDir })
    if (isTemporary(name)) {
      // What we write ourselves is told of when it is in its place.
      if (mask & IN.MOVED_FROM && this.#placed.size < MAX_PLACED) this.#placed.add(cookie)
      else this.#placed.delete(cookie)
      return
    }
    const isNew = (mask & (IN.CREATE | IN.MOVED_TO)) !== 0
    const { fresh } = directory
    if (fresh && !fresh.seen.has(name)) {
      fresh.seen.add(name)
      // It was there before the directory was watched, and is only told of now.
      if (!isNew && !fresh.quiet) tell('CREATE')
    }
    if (mask & IN.MODIFY) tell('WRITE')
    if (mask & IN.DELETE) tell('DELETE')
    if (mask & IN.MOVED_FROM) tell('RENAME')
    if (isNew) tell('CREATE')
    if (this.#placed.delete(cookie)) tell('WRITE')
    if (isDir && this.#recursive) {
      if (mask & IN.MOVED_FROM) this.#onMovedFrom(path, cookie)
      if (isNew) this.#onDirectory(path, cookie)
    }
  }

  #onRootGone(type: 'DELETE' | 'RENAME'): void {
    if (this.#over) return
    this.#over = true
    this.#tell({ type, path: this.#root, name: basename(this.#root), is_dir: true })
    this.#ended.resolve()
  }

  #onMovedFrom(path: string, cookie: number): void {
    const under = (at: { path: string }) => at.path === path || at.path.startsWith(`${path}/`)
    const directories = [...this.#watched.values()].filter(under)
    for (const directory of directories) directory.leaving = cookie
    this.#moved.set(cookie, { path, directories, looks: [...this.#waiting, ...this.#looking].filter(under) })
    // Both halves of a rename come together; when the second is not there by then, it went out of what is watched.
    void this.#inotify
      .caughtUp()
      .then(() => {
        const moved = this.#moved.get(cookie)
        this.#moved.delete(cookie)
        for (const look of moved?.looks ?? []) look.cancelled = true
        if (moved) this.#drop(({ leaving }) => leaving === cookie)
      })
      .catch((error: unknown) => this.#ended.reject(error))
  }

  #onDirectory(path: string, cookie: number): void {
    const moved = this.#moved.get(cookie)
    this.#moved.delete(cookie)
    // Moved directories keep their watches; only their paths are others, and what is in them is told of anew.
    for (const look of moved?.looks ?? []) look.cancelled = true
    for (const directory of moved?.directories ?? []) {
      directory.path = path + directory.path.slice(moved!.path.length)
      directory.leaving = undefined
      directory.fresh = { quiet: false, seen: new Set() }
    }
    this.#look({ path, quiet: false, round: this.#round })
  }

  #drop(which: (directory: Directory) => boolean): void {
    for (const [watch, directory] of this.#watched) {
      if (!which(directory)) continue
      this.#watched.delete(watch)
      this.#inotify.remove(watch)
    }
  }

  /** Events were lost, of new directories or of the end of this one perhaps: everything is looked at again. */
  #onOverflow(): void {
    this.#tell(gap('overflow', 'events were lost, for they came faster than they could be taken; list the directory again'))
    this.#recovering = true
    this.#look({ path: this.#root, quiet: true, round: ++this.#round })
  }

  // ---- looking into directories ----

  #look(look: Look): void {
    this.#waiting.push(look)
    if (!this.#working && this.#started) void this.#work().catch((error: unknown) => this.#ended.reject(error))
  }

  async #work(signal?: AbortSignal): Promise<void> {
    this.#working = true
    try {
      while (this.#waiting.length > 0) {
        signal?.throwIfAborted()
        const some = this.#waiting.splice(0, AT_ONCE)
        for (const look of some) this.#looking.add(look)
        await Promise.all(some.map((look) => this.#lookInto(look).finally(() => this.#looking.delete(look))))
      }
      // What a full round has not come across is no longer there; word of its end was lost.
      this.#drop(({ round }) => round < this.#round)
      // What happened in these since the first word of the loss was told to nobody, either.
      if (this.#foundMore) this.#tell(gap('overflow', 'events in new directories were lost, until now; list the directory again'))
      this.#recovering = this.#foundMore = false
    } finally {
      this.#working = false
    }
  }

  async #lookInto(look: Look): Promise<void> {
    const directory = await this.#add(look)
    if (!directory) return look.path === this.#root ? this.#onRootGone('DELETE') : undefined
    const entries = this.#recursive ? await entriesOf(directory.path, look.quiet) : []
    // Whatever events there are of these names have been told when this returns.
    await this.#inotify.caughtUp()
    const { fresh } = directory
    if (look.cancelled || fresh?.look !== look) return
    for (const entry of entries) {
      if (isTemporary(entry.name) || fresh.seen.has(entry.name)) continue
      const path = join(directory.path, entry.name)
      if (!look.quiet) this.#tell({ type: 'CREATE', path, name: entry.name, is_dir: entry.isDir })
      if (entry.hasContent) this.#tell({ type: 'WRITE', path, name: entry.name, is_dir: false })
      if (entry.isDir) this.#look({ path, quiet: look.quiet, round: look.round })
    }
    directory.fresh = undefined
  }

  /** Has the kernel watch a directory; one that it watches already is brought up to date. Undefined when that cannot be. */
  async #add(look: Look): Promise<Directory | undefined> {
    const { path, quiet, round } = look
    const isRoot = path === this.#root
    if (look.cancelled || isKernels(path)) return undefined
    let directory: Directory | undefined
    let isOneTooMany = false
    try {
      await this.#inotify.add(path, isRoot ? OF_ROOT : OF_INNER, (watch) => {
        if (look.cancelled) return
        const known = this.#watched.get(watch)
        isOneTooMany = !known && this.#watched.size >= MAX_DIRECTORIES
        if (isOneTooMany) return this.#inotify.remove(watch)
        const fresh = { quiet, seen: known?.fresh?.seen ?? new Set<string>(), look }
        directory = Object.assign(known ?? {}, { path, round, fresh, leaving: undefined })
        this.#watched.set(watch, directory)
        if (!known && this.#recovering) this.#foundMore = true
      })
    } catch (error) {
      const { code = '' } = error as NodeJS.ErrnoException
      if (code === 'ENOSPC') return this.#tooMany(path, 'there are as many watches as the system allows')
      if (code === '' || (isRoot && !this.#started)) throw fileFault(error, 'path', path)
      if (!['ENOENT', 'ENOTDIR', 'ELOOP'].includes(code)) return this.#cannot(path, code)
      // It has gone again, or has been moved, of which there is word; or it is there, but under bytes that are no text.
      return path.includes('\ufffd') ? this.#cannot(path, 'its name is not UTF-8') : undefined
    }
    return isOneTooMany ? this.#tooMany(path, `there are more than ${MAX_DIRECTORIES} directories`) : directory
  }

  /** Before the watch has begun, having too many directories is a reason not to. */
  #tooMany(path: string, why: string): undefined {
    if (!this.#started) throw fault.field('path', `cannot be watched: ${why}`)
    this.#cannot(path, why)
  }

  /** Says once that not everything is watched. */
  #cannot(path: string, why: string): undefined {
    if (!this.#full) this.#tell(gap('limit', `${path} is not watched: ${why}`))
    this.#full = true
  }
}

interface Entry {
  name: string
  isDir: boolean
  /** It has been written, of which no event will tell; not found out for what is not told of. */
  hasContent: boolean
}

/** What is in a directory; nothing when it has gone or cannot be read. */
async function entriesOf(path: string, quiet: boolean): Promise<Entry[]> {
  try {
    const found: Entry[] = []
    for (const entry of await readdir(path, { withFileTypes: true })) {
      const hasContent = !quiet && entry.isFile() && (lstatSync(join(path, entry.name), { throwIfNoEntry: false })?.size ?? 0) > 0
      found.push({ name: entry.name, isDir: entry.isDirectory(), hasContent })
    }
    return found
  } catch (error) {
    if (['ENOENT', 'ENOTDIR', 'EACCES'].includes((error as NodeJS.ErrnoException).code ?? '')) return []
    throw error
  }
}
