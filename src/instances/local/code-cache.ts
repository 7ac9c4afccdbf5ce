// Copies of apps' code on this machine's disk, one folder each, which sandboxes mount read-only. The object is the truth: whatever is missing here is
// fetched again.
import { existsSync, mkdirSync, readdirSync, readlinkSync, renameSync, statSync, utimesSync } from 'node:fs'
import { basename, join } from 'node:path'
import { newId } from '../../base/ids.ts'
import type { Log } from '../../base/log.ts'
import { abortable } from '../../base/wait.ts'
import type { AppCode } from '../driver.ts'
import { APP_LINK } from './app-command.ts'
import type { Trash } from './trash.ts'
import { sizeOf } from './usage.ts'

/** Code that nothing has used for this long is removed. */
const UNUSED_MS = 30 * 24 * 3600_000
/** Interval of the search for old copies, in addition to the one after each new copy. */
const EVICT_MS = 3600_000
/** Longer than the longest build or unpacking. */
const MAKING_MS = 3600_000
/** A copy that was used this recently may be about to become the code of a sandbox, also of another service on this data directory. */
const IN_USE_MS = 60_000
/** Folders that sandboxes write to: the result of a build, or code that is being unpacked. The sandbox's id follows. */
const MADE_BY = 'by-'
/** The name of a copy: the last part of its object's key. */
const COPY = /^[a-z][a-z0-9]{23}\.[a-z0-9]+$/

/** A copy that is kept until it is released, or a sandbox links to it. */
export interface HeldCopy extends Disposable {
  /** Its folder below {@link CodeCacheSettings.dir}. */
  name: string
}

export interface CodeCacheSettings {
  /** The folder of all copies. */
  dir: string
  /** The folder of the sandboxes. Each has a link to its code, also those that an earlier service has started. */
  sandboxes: string
  maxBytes: number
  trash: Pick<Trash, 'discard'>
  log: Log
  /** Unpacks code into the folder that the sandbox `id` makes ({@link CodeCache.make}). @throws CodeUnavailable */
  unpack: (id: string, code: AppCode) => Promise<void>
}

export class CodeCache {
  readonly #settings: CodeCacheSettings
  readonly #making = new Set<string>()
  readonly #fetches = new Map<string, Promise<void>>()
  /** Copies that a build will leave at its end. */
  readonly #expected = new Map<string, Promise<void>>()
  readonly #holds = new Map<string, number>()
  /** Bytes of the copies that were counted. */
  readonly #bytes = new Map<string, number>()
  /** Unneeded copies that a sandbox still uses. */
  readonly #unneeded = new Set<string>()
  #evicting: Promise<void> = Promise.resolve()
  readonly #timer: NodeJS.Timeout

  constructor(settings: CodeCacheSettings) {
    this.#settings = settings
    this.#timer = setInterval(() => void this.evict(), EVICT_MS).unref()
  }

  /** The folder that a sandbox fills. It belongs to no copy until {@link keep}. */
  madeBy(id: string): string {
    return join(this.#settings.dir, MADE_BY + id)
  }

  /** Makes that folder, empty. */
  async make(id: string): Promise<string> {
    this.#making.add(id)
    const folder = this.madeBy(id)
    // Remains of an interrupted build would block the next one.
    await this.#settings.trash.discard(folder)
    mkdirSync(folder, { mode: 0o755 })
    return folder
  }

  /** Removes what a sandbox has made. The sandbox has ended. */
  async drop(id: string): Promise<void> {
    await this.#settings.trash.discard(this.madeBy(id))
    this.#making.delete(id)
  }

  /**
   * Announces that {@link keep} follows for this object when a sandbox has ended. Callers of {@link hold} wait for it, until the returned function is called.
   */
  expect(key: string): () => void {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#expected.set(nameOf(key), promise)
    return () => {
      this.#expected.delete(nameOf(key))
      resolve()
    }
  }

  /** Turns the result of a sandbox into the copy of the object `key`. The sandbox has ended. */
  async keep(id: string, key: string): Promise<void> {
    const name = nameOf(key)
    if (!existsSync(this.madeBy(id)) || !this.#take(id, name)) return this.drop(id)
    void this.evict()
  }

  /** A copy of the code: the existing one, or a new one. Concurrent callers share one fetch. @throws CodeUnavailable, or the signal's reason */
  async hold(code: AppCode, signal: AbortSignal): Promise<HeldCopy> {
    const name = nameOf(code.key)
    this.#holds.set(name, (this.#holds.get(name) ?? 0) + 1)
    const release = () => {
      const left = this.#holds.get(name)! - 1
      if (left > 0) return void this.#holds.set(name, left)
      this.#holds.delete(name)
      this.released()
    }
    try {
      if (!this.#has(name)) await abortable(Promise.resolve(this.#expected.get(name)), signal)
      if (!this.#has(name)) await abortable(this.#fetch(name, code), signal)
      used(join(this.#settings.dir, name))
      return { name, [Symbol.dispose]: release }
    } catch (error) {
      release()
      throw error
    }
  }

  /** Removes the copy of an object that is not needed any more. A copy in use is removed after the sandbox's end. */
  async forget(key: string): Promise<void> {
    const name = nameOf(key)
    if (!this.#has(name) && !this.#fetches.has(name)) return
    this.#unneeded.add(name)
    await this.evict()
  }

  /** Called when a sandbox or a caller has released a copy: unneeded copies are removed now. */
  released(): void {
    if (this.#unneeded.size > 0) void this.evict()
  }

  /**
   * Removes the results of sandboxes that no longer run: after a crash, and after failed ends. Young ones are kept, because another service on this data
   * directory may be making them.
   */
  async tidy(now = Date.now()): Promise<void> {
    const { dir, sandboxes, trash } = this.#settings
    for (const name of readdirSync(dir).filter((entry) => entry.startsWith(MADE_BY))) {
      const id = name.slice(MADE_BY.length)
      const made = statSync(join(dir, name), { throwIfNoEntry: false })?.birthtimeMs ?? now
      if (now - made > MAKING_MS && !this.#making.has(id) && !existsSync(join(sandboxes, id))) await trash.discard(join(dir, name))
    }
  }

  /** Removes unneeded copies, copies that were unused for long, and the least recently used ones while the total is too large. */
  evict(): Promise<void> {
    return (this.#evicting = this.#evicting.then(() =>
      this.#evict().catch((err: unknown) => this.#settings.log.warn({ err }, "old copies of apps' code could not be removed; it will be tried again")),
    ))
  }

  /** Ends its timer and waits for running work. */
  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer)
    await Promise.allSettled(this.#fetches.values())
    await this.#evicting
  }

  #has(name: string): boolean {
    return existsSync(join(this.#settings.dir, name))
  }

  /** False when there is a copy already: of a run that has fetched it meanwhile, of a build, or of another service on this data directory. */
  #take(id: string, name: string): boolean {
    const copy = join(this.#settings.dir, name)
    if (this.#has(name)) return false
    try {
      renameSync(this.madeBy(id), copy)
    } catch (error) {
      if (['ENOTEMPTY', 'EEXIST'].includes((error as NodeJS.ErrnoException).code ?? '')) return false
      throw error
    }
    used(copy)
    this.#making.delete(id)
    return true
  }

  #fetch(name: string, code: AppCode): Promise<void> {
    const known = this.#fetches.get(name)
    if (known) return known
    const fetching = this.#fetchNow(name, code).finally(() => this.#fetches.delete(name))
    this.#fetches.set(name, fetching)
    return fetching
  }

  async #fetchNow(name: string, code: AppCode): Promise<void> {
    const id = newId()
    try {
      await this.#settings.unpack(id, code)
      if (!this.#take(id, name)) await this.drop(id)
    } catch (error) {
      await this.drop(id).catch((err: unknown) => this.#settings.log.warn({ err, id }, 'what was unpacked could not be removed; it will be tried again'))
      throw error
    }
    void this.evict()
  }

  async #evict(): Promise<void> {
    const { dir, log, maxBytes } = this.#settings
    await this.tidy()
    const names = readdirSync(dir)
    for (const name of [...this.#bytes.keys(), ...this.#unneeded]) if (!names.includes(name) && !this.#fetches.has(name)) this.#gone(name)
    for (const name of this.#unneeded) if (!this.#isUsed(name)) await this.#discard(name)
    const copies = names
      .filter((name) => COPY.test(name) && this.#has(name))
      .map((name) => ({ name, usedAt: statSync(join(dir, name)).mtimeMs }))
      .toSorted((a, b) => a.usedAt - b.usedAt)
    const measured = []
    for (const copy of copies) {
      const bytes = this.#bytes.get(copy.name) ?? Math.min(maxBytes, (await sizeOf([join(dir, copy.name)])).bytes)
      this.#bytes.set(copy.name, bytes)
      measured.push({ ...copy, bytes })
    }
    let held = measured.reduce((sum, { bytes }) => sum + bytes, 0)
    for (const { name, usedAt, bytes } of measured) {
      if (held <= maxBytes && Date.now() - usedAt < UNUSED_MS) break
      if (Date.now() - usedAt < IN_USE_MS || this.#isUsed(name)) continue
      held -= bytes
      await this.#discard(name)
      log.info({ code: name }, "a copy of an app's code was removed; it is fetched again when it is needed")
    }
  }

  async #discard(name: string): Promise<void> {
    await this.#settings.trash.discard(join(this.#settings.dir, name))
    this.#gone(name)
  }

  #gone(name: string): void {
    this.#bytes.delete(name)
    this.#unneeded.delete(name)
  }

  /** Whether it is held, fetched, or the code of a sandbox. */
  #isUsed(name: string): boolean {
    const { sandboxes } = this.#settings
    return this.#holds.has(name) || this.#fetches.has(name) || readdirSync(sandboxes).some((id) => linkedBy(join(sandboxes, id)) === name)
  }
}

/** Its modification time is the time of its last use, which outlives the service. */
function used(copy: string): void {
  const now = new Date()
  utimesSync(copy, now, now)
}

/** The folder that a sandbox has as its code; undefined when it has none yet. */
export function linkedBy(sandbox: string): string | undefined {
  try {
    return basename(readlinkSync(join(sandbox, 'spec', APP_LINK)))
  } catch {
    return undefined
  }
}

function nameOf(key: string): string {
  const name = basename(key)
  if (!COPY.test(name)) throw new Error(`not the key of an app's code: ${key}`)
  return name
}
