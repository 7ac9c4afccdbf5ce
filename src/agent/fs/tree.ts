// The directories of one watch: those that the kernel watches, and the meaning of its events. Lost events are always reported as a gap.
import { lstatSync } from 'node:fs'
import { readdir, stat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { fault } from '../../http/fault.ts'
import { gap } from './backlog.ts'
import type { WatchEvent } from './contract.ts'
import { fileFault, onPath } from './faults.ts'
import { IN, openInotify, type Inotify, type KernelEvent } from './inotify.ts'
import { isTemporary } from './stage.ts'

/** Most directories of one watch. The kernel's limit per user is some ten thousands and up. */
export const MAX_DIRECTORIES = 10_000

/** Directories scanned at the same time. */
const AT_ONCE = 16

/** Most renames of our own uploads whose second event has not arrived: one for each upload that finishes at this moment. */
const MAX_PLACED = 1_000

const CHANGES = IN.CREATE | IN.MODIFY | IN.DELETE | IN.MOVED_FROM | IN.MOVED_TO | IN.ONLYDIR | IN.EXCL_UNLINK
const OF_ROOT = CHANGES | IN.DELETE_SELF | IN.MOVE_SELF
const OF_INNER = CHANGES | IN.DONT_FOLLOW

/** File systems without change events. */
const KERNEL = ['/proc', '/sys']
const isKernels = (path: string): boolean => KERNEL.some((root) => path === root || path.startsWith(`${root}/`))

/** A directory that the kernel watches. */
interface Directory {
  path: string
  /** The last full scan that found this directory. */
  round: number
  /** Set while a scan of it is queued or running. */
  fresh?: Fresh | undefined
  /** The cookie of the rename that moved it away, until the new path is known. */
  leaving?: number | undefined
}

/** What is known about a directory while it is scanned. Until the scan ends, events may refer to entries that existed before the watch. */
interface Fresh {
  /** Do not report existing entries as new. */
  quiet: boolean
  /** Names that had events; an event is newer than the scan's result. */
  seen: Set<string>
  look?: Look
}

/** A directory to be watched and scanned. */
interface Look {
  path: string
  quiet: boolean
  round: number
  /** A later scan replaces this one. */
  cancelled?: boolean
}

/** A directory that was moved away from `path`, with the state of its subtree at that time. */
interface Moved {
  path: string
  directories: Directory[]
  looks: Look[]
}

export interface Tree extends AsyncDisposable {
  /** Settles when the watched directory was deleted; rejects when watching has failed. */
  ended: Promise<void>
}

/**
 * Watches a directory, with `recursive` everything below it, and reports changes from the moment it resolves. A directory that appears (created or
 * moved in) is scanned once it is watched: after its own CREATE come CREATE for each entry, and WRITE for each file that is not empty.
 */
export async function watchTree(root: string, recursive: boolean, tell: (event: WatchEvent) => void, signal: AbortSignal): Promise<Tree> {
  if (!(await onPath('path', root, () => stat(root))).isDirectory()) throw fault.field('path', 'is not a directory')
  if (isKernels(root)) throw fault.field('path', 'is a file system without change events')
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
  /** By path: a directory that is renamed repeatedly is scanned once. */
  readonly #waiting = new Map<string, Look>()
  readonly #looking = new Set<Look>()
  #working = false
  #round = 0
  /** `#recovering`: events were lost, so everything is scanned again. `#foundMore`: that scan found directories that were not watched. */
  #recovering = false
  #foundMore = false
  /** By the rename's cookie, until the new path is known. */
  readonly #moved = new Map<number, Moved>()
  /** Cookies of renames whose second event is not overdue yet. */
  #unsettled: number[] = []
  #settling = false
  /** Cookies of renames of our own temporary files. */
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
    void inotify.ended.then(() => this.#ended.reject(new Error('the watch program has ended')))
    this.#waiting.set(this.#root, { path: this.#root, quiet: true, round: 0 })
    await this.#work(signal)
    this.#started = true
  }

  // ---- events ----

  onEvent({ watch, mask, cookie, name }: KernelEvent): void {
    if (mask & IN.Q_OVERFLOW) return this.#onOverflow()
    const directory = this.#watched.get(watch)
    if (!directory) return
    const isRoot = directory.path === this.#root
    if (mask & (IN.DELETE_SELF | IN.MOVE_SELF)) return this.#onRootGone(mask & IN.DELETE_SELF ? 'DELETE' : 'RENAME')
    if (mask & IN.IGNORED) {
      this.#watched.delete(watch)
      // The directory was unmounted, or its DELETE_SELF event was lost.
      if (isRoot) this.#onRootGone('DELETE')
    } else if (name !== '' && directory.leaving === undefined) {
      // A directory that is being moved has no known path. If it comes back, its entries are reported again.
      this.#onChange(directory, mask, cookie, name)
    }
  }

  #onChange(directory: Directory, mask: number, cookie: number, name: string): void {
    const path = join(directory.path, name)
    const isDir = (mask & IN.ISDIR) !== 0
    const tell = (type: 'CREATE' | 'WRITE' | 'DELETE' | 'RENAME') => this.#tell({ type, path, name, is_dir: isDir })
    if (isTemporary(name)) {
      // Report our own uploads when they reach their final name.
      if (mask & IN.MOVED_FROM && this.#placed.size < MAX_PLACED) this.#placed.add(cookie)
      else this.#placed.delete(cookie)
      return
    }
    const isNew = (mask & (IN.CREATE | IN.MOVED_TO)) !== 0
    const { fresh } = directory
    if (fresh && !fresh.seen.has(name)) {
      fresh.seen.add(name)
      // It existed before the directory was watched and has not been reported yet.
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
    this.#moved.set(cookie, { path, directories, looks: [...this.#waiting.values(), ...this.#looking].filter(under) })
    this.#unsettled.push(cookie)
    if (!this.#settling) void this.#settle().catch((error: unknown) => this.#ended.reject(error))
  }

  /** Both events of a rename come together. If the second has not arrived when the queue is empty, the target is outside the watch. */
  async #settle(): Promise<void> {
    this.#settling = true
    try {
      while (this.#unsettled.length > 0) {
        const cookies = this.#unsettled
        this.#unsettled = []
        await this.#inotify.caughtUp()
        const outside = new Set<number>()
        for (const cookie of cookies) {
          const moved = this.#moved.get(cookie)
          if (!moved) continue
          outside.add(cookie)
          this.#cancel(moved.looks)
          this.#moved.delete(cookie)
        }
        if (outside.size > 0) this.#drop(({ leaving }) => leaving !== undefined && outside.has(leaving))
      }
    } finally {
      this.#settling = false
    }
  }

  #cancel(looks: readonly Look[]): void {
    for (const look of looks) {
      look.cancelled = true
      if (this.#waiting.get(look.path) === look) this.#waiting.delete(look.path)
    }
  }

  #onDirectory(path: string, cookie: number): void {
    const moved = this.#moved.get(cookie)
    this.#moved.delete(cookie)
    // Moved directories keep their watches. Only their paths change, and their entries are reported again.
    this.#cancel(moved?.looks ?? [])
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

  /** Events were lost, perhaps of new directories or of the end of this one: scan everything again. */
  #onOverflow(): void {
    this.#tell(gap('overflow', 'events were lost, because they came faster than they could be handled; list the directory again'))
    this.#recovering = true
    this.#look({ path: this.#root, quiet: true, round: ++this.#round })
  }

  // ---- scans ----

  #look(look: Look): void {
    const earlier = this.#waiting.get(look.path)
    // Entries that appeared and are not reported yet still have to be.
    if (earlier) this.#cancel([earlier])
    this.#waiting.set(look.path, earlier?.quiet === false ? { ...look, quiet: false } : look)
    if (!this.#working && this.#started) void this.#work().catch((error: unknown) => this.#ended.reject(error))
  }

  async #work(signal?: AbortSignal): Promise<void> {
    this.#working = true
    try {
      while (this.#waiting.size > 0) {
        signal?.throwIfAborted()
        const some = [...this.#waiting.values()].slice(0, AT_ONCE)
        for (const look of some) {
          this.#waiting.delete(look.path)
          this.#looking.add(look)
        }
        await Promise.all(some.map((look) => this.#lookInto(look).finally(() => this.#looking.delete(look))))
      }
      // Directories that a full scan has not found are deleted; the events of their end were lost.
      this.#drop(({ round }) => round < this.#round)
      // Events in newly found directories were also lost until now.
      if (this.#foundMore) this.#tell(gap('overflow', 'events in new directories were lost; list the directory again'))
      this.#recovering = this.#foundMore = false
    } finally {
      this.#working = false
    }
  }

  async #lookInto(look: Look): Promise<void> {
    const directory = await this.#add(look)
    if (!directory) return look.path === this.#root ? this.#onRootGone('DELETE') : undefined
    const entries = this.#recursive ? await entriesOf(directory.path, look.quiet) : []
    // After this, all earlier events about these names have been handled.
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

  /** Asks the kernel to watch a directory, or updates one that it watches already. Undefined when the directory cannot be watched. */
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
      // It has been deleted or moved, and an event reports that; or its name is not UTF-8, so the path does not match.
      return path.includes('\ufffd') ? this.#cannot(path, 'its name is not UTF-8') : undefined
    }
    return isOneTooMany ? this.#tooMany(path, `there are more than ${MAX_DIRECTORIES} directories`) : directory
  }

  /** Before the watch has started, too many directories fail the call; later they are reported as a gap. */
  #tooMany(path: string, why: string): undefined {
    if (!this.#started) throw fault.field('path', `cannot be watched: ${why}`)
    this.#cannot(path, why)
  }

  /** Reports once that a part of the tree is not watched. */
  #cannot(path: string, why: string): undefined {
    if (!this.#full) this.#tell(gap('limit', `${path} is not watched: ${why}`))
    this.#full = true
  }
}

interface Entry {
  name: string
  isDir: boolean
  /** The file is not empty; the write happened before the watch, so no event reports it. Not looked up in quiet scans. */
  hasContent: boolean
}

/** The entries of a directory; empty when it was deleted or cannot be read. */
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
