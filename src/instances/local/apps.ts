// Sandboxes of apps on this machine: their directories, their users, and the copies of code that they write and read.
import { execFile } from 'node:child_process'
import { chmodSync, chownSync, closeSync, constants, mkdirSync, openSync, symlinkSync, writeFileSync, writeSync } from 'node:fs'
import { basename, join } from 'node:path'
import { promisify } from 'node:util'
import type { Config } from '../../base/config.ts'
import { newId } from '../../base/ids.ts'
import type { DataPaths } from '../../base/paths.ts'
import type { Command } from '../../base/unprivileged.ts'
import { instanceUser, type User } from '../../base/user.ts'
import { resultWithin, until } from '../../base/wait.ts'
import { call, CallFailed } from '../../http/client.ts'
import { environmentFile } from '../../runner/command.ts'
import { runner as runnerCalls, type RunnerSpec } from '../../runner/contract.ts'
import { CodeUnavailable, letGo, type AppCode, type AppSandbox, type AppSandboxes, type AppSandboxSpec, type Found } from '../driver.ts'
import { APP_LINK, appCommand, GO } from './app-command.ts'
import { readyCacheOf } from './build-cache.ts'
import { CodeCache, linkedBy } from './code-cache.ts'
import { writeGuestEtc } from './guest-etc.ts'
import { adoptSandbox, foundSandboxes, openSandbox, type LocalInstance, type Place, type SandboxKind } from './instance.ts'
import { NO_NETWORK, planNetwork } from './network.ts'
import { diskOf, diskQuota, memoryOf } from './storage.ts'
import { sizeOf } from './usage.ts'

/** All builds run as one user, which owns their shared downloads and the code that they make. Each run has a user of its own. */
const BUILDER = 'cob-builder'
/** Setting up a network takes 0.1 s; ten at once on two cores take ten times that. */
const NETWORK_MS = 60_000
const MKFIFO_MS = 10_000
/** A prepared sandbox that is not used within this time is ended. Its network may be outdated by then, too. */
const KEPT_MS = 10 * 60_000
/** Limit on fetching and unpacking code, which takes a second for 30 MB. */
const UNPACK_MS = 10 * 60_000
/** Time between the end of a connection and the notice that its sandbox has ended. */
const EXIT_NEWS_MS = 3_000

const run = promisify(execFile)

/** A sandbox that fills a folder. */
interface Making {
  /** The folder that it makes. */
  made?: string
  /** Of a build: the owner whose downloads it uses. */
  downloadsOf?: string | undefined
}

/** A sandbox whose network is ready and which waits for its code. */
interface Prepared {
  instance: LocalInstance
  user: User | undefined
  /** The path as the started program sees it. */
  apps: string
}

export class LocalApps implements AppSandboxes {
  readonly #config: Config
  readonly #paths: DataPaths
  readonly #kind: SandboxKind
  readonly #compiled: () => Promise<string>
  readonly #copies: CodeCache
  /** A sandbox for the next run. */
  #next: { made: Promise<Prepared>; apiUrl: string; timer: NodeJS.Timeout } | undefined
  #isStopping = false

  constructor(config: Config, paths: DataPaths, kind: SandboxKind, compiled: () => Promise<string>) {
    // Each sandbox's user passes through it to the one folder that the sandbox mounts. Other users have no access.
    chmodSync(paths.apps, 0o711)
    this.#config = config
    this.#paths = paths
    this.#kind = kind
    this.#compiled = compiled
    const { trash, log } = kind
    const unpack = (id: string, code: AppCode) => this.#unpack(id, code)
    this.#copies = new CodeCache({ dir: paths.apps, sandboxes: paths.appSandboxes, maxBytes: config.appCodeCacheMb * MIB, trash, log, unpack })
  }

  async start({ id, code, runner, apiUrl, downloadsOf }: AppSandboxSpec, signal: AbortSignal): Promise<AppSandbox> {
    signal.throwIfAborted()
    if (!code) {
      const instance = await this.#making(runner, apiUrl, signal, runner.kind === 'build' ? (downloadsOf ?? id) : undefined).catch(async (error: unknown) => {
        await this.#copies.drop(runner.id)
        throw error
      })
      return this.#sandbox(instance)
    }
    using copy = await this.#copies.hold(code, signal)
    if (runner.kind !== 'run') return this.#sandbox(await this.#begin(await this.#prepare(runner.kind, id, apiUrl), copy.name, runner, signal))
    const prepared = await this.#take(apiUrl)
    // After this start and not during it, so that it does not slow the start down.
    return this.#sandbox(await this.#begin(prepared, copy.name, runner, signal).finally(() => this.#refill(apiUrl)))
  }

  async found(): Promise<Found[]> {
    return foundSandboxes(this.#kind)
  }

  async adopt(id: string): Promise<AppSandbox | undefined> {
    const instance = await adoptSandbox(this.#kind, id)
    if (instance) return this.#sandbox(instance)
    // No other attempt of a build uses the folder that this one has made. The copy is then found later.
    await this.#copies
      .drop(id)
      .catch((err: unknown) => this.#kind.log.warn({ err, instance: id }, 'what a sandbox has made could not be removed; it will be tried again'))
    return undefined
  }

  forget(key: string): Promise<void> {
    return this.#copies.forget(key)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isStopping = true
    await this.#letNextGo()
    await this.#copies[Symbol.asyncDispose]()
  }

  /** `made` is the folder outside its own that it fills. Only builds and runs have a network. */
  async #prepare(what: RunnerSpec['kind'], id: string, apiUrl: string, { made, downloadsOf }: Making = {}): Promise<Prepared> {
    const { appMemoryMb, appPids, appCpuPercent, appDiskMb, allowHostLoopback } = this.#config
    const { usage, trash, log } = this.#kind
    const user = instanceUser(what === 'run' ? id : BUILDER)
    const cache = downloadsOf === undefined ? undefined : await readyCacheOf(this.#paths.buildCache, downloadsOf, usage, trash, log)
    const isOffline = what === 'unpack'
    let apps = ''
    const fill = async ({ dir, groups, bounds, before }: Place): Promise<Command> => {
      const own = ownedBy(user)
      const [spec, etc] = [own(join(dir, 'spec'), 0o700), join(dir, 'etc')]
      await run('mkfifo', ['-m', '600', join(spec, GO)], { timeout: MKFIFO_MS })
      if (user) chownSync(join(spec, GO), user.uid, user.gid)
      const network = isOffline ? NO_NETWORK : planNetwork(allowHostLoopback, [Number(new URL(apiUrl).port || 80)])
      const downloads = cache && own(cache.dir, 0o700)
      const home = own(join(diskOf(dir), 'home'), 0o700)
      const folders = { home, memory: memoryOf(dir), etc, spec, apps: this.#paths.apps, cache: await this.#compiled(), downloads }
      const command = appCommand({ kind: what, folders, bounds, before, etcFiles: await writeGuestEtc(etc, network), network, user, groups })
      apps = command.seen.apps!
      return command
    }
    // The result outlives the sandbox, so it is outside of its disk. Of the shared downloads, only a build's additions count for it.
    const shared = [...(made === undefined ? [] : [made]), ...(cache?.held ? [cache.dir] : [])]
    const limits = { memoryBytes: appMemoryMb * MIB, pids: appPids, cpuPercent: appCpuPercent }
    const wanted = { id, limits, disk: diskQuota(appDiskMb), shared, sharedBefore: cache?.held, isOffline, prepare: fill }
    using scope = new DisposableStack()
    if (cache) scope.use(cache.hold)
    const instance = await openSandbox(this.#kind, wanted)
    const held = scope.move()
    void instance.exited.then(() => held.dispose())
    return { instance, user, apps }
  }

  /** Gives a prepared sandbox its input. `code` is the folder of its code below `apps`. */
  async #begin({ instance, user, apps }: Prepared, code: string, runner: RunnerSpec, signal: AbortSignal): Promise<LocalInstance> {
    try {
      const spec = join(instance.dir, 'spec')
      const files = {
        'runner.json': JSON.stringify({ ...runner, graceSeconds: this.#config.abandonedGraceSeconds } satisfies RunnerSpec),
        ...(runner.kind === 'run' && { environment: environmentFile(runner.env) }),
      }
      for (const [name, text] of Object.entries(files)) {
        writeFileSync(join(spec, name), text, { mode: 0o400 })
        if (user) chownSync(join(spec, name), user.uid, user.gid)
      }
      symlinkSync(join(apps, code), join(spec, APP_LINK))
      const gone = instance.exited.then(({ reason }) => Promise.reject(new Error(reason)))
      gone.catch(() => {})
      const sent = until('a sandbox to have its network', NETWORK_MS, () => tell(join(spec, GO)), { everyMs: 1, signal })
      await Promise.race([sent, gone])
    } catch (error) {
      await this.#letGo(instance)
      throw error
    }
    return instance.up(signal)
  }

  #letGo(instance: LocalInstance): Promise<void> {
    return letGo(instance, this.#kind.log)
  }

  #takeNext() {
    const next = this.#next
    this.#next = undefined
    clearTimeout(next?.timer)
    return next
  }

  async #letNextGo(): Promise<void> {
    const prepared = await this.#takeNext()?.made.catch(() => undefined)
    if (prepared) await this.#letGo(prepared.instance)
  }

  /** Prepares a sandbox for the next run. */
  #refill(apiUrl: string): void {
    if (this.#isStopping || this.#next) return
    const made = this.#prepare('run', newId(), apiUrl)
    made.catch((err: unknown) => this.#kind.log.warn({ err }, 'a sandbox could not be prepared'))
    this.#next = { made, apiUrl, timer: setTimeout(() => void this.#letNextGo(), KEPT_MS).unref() }
  }

  async #take(apiUrl: string): Promise<Prepared> {
    const next = this.#takeNext()
    const prepared = await next?.made.catch(() => undefined)
    if (prepared && next?.apiUrl === apiUrl && (await isThere(prepared.instance))) return prepared
    if (prepared) await this.#letGo(prepared.instance)
    return this.#prepare('run', newId(), apiUrl)
  }

  /** Makes an empty folder, prepares a sandbox that may write there, and starts it with this folder as its code. */
  async #making(runner: RunnerSpec, apiUrl: string, signal: AbortSignal, downloadsOf?: string): Promise<LocalInstance> {
    const made = await this.#copies.make(runner.id)
    const user = instanceUser(BUILDER)
    if (user) chownSync(made, user.uid, user.gid)
    return this.#begin(await this.#prepare(runner.kind, runner.id, apiUrl, { made, downloadsOf }), basename(made), runner, signal)
  }

  /** Packed code may be hostile, like every result of a build: it is unpacked in a sandbox, with the limits of a build and without a network. */
  async #unpack(id: string, code: AppCode): Promise<void> {
    const { appMemoryMb, appDiskMb, logLevel } = this.#config
    const signal = AbortSignal.any([this.#kind.signal, AbortSignal.timeout(UNPACK_MS)])
    const content = await code.open(signal)
    try {
      const instance = await this.#making({ id, kind: 'unpack', env: {}, memoryMb: appMemoryMb, logLevel }, NOWHERE, signal)
      try {
        await call(instance.runner, runnerCalls.unpackCode, { body: content }, { signal })
      } catch (error) {
        signal.throwIfAborted()
        const end = await resultWithin(EXIT_NEWS_MS, instance.exited, signal)
        throw new CodeUnavailable(`${NOT_UNPACKED}: ${end?.reason ?? reasonOf(error)}`, { cause: error })
      } finally {
        await instance[Symbol.asyncDispose]()
      }
      // Writes between two counts of a sandbox are counted here.
      const [held, allowed] = [await sizeOf([this.#copies.madeBy(id)]), diskQuota(appDiskMb)]
      if (held.bytes > allowed.bytes || held.inodes > allowed.inodes)
        throw new CodeUnavailable(`${NOT_UNPACKED}: it has ${Math.round(held.bytes / MIB)} MiB in ${held.inodes} files; ${appDiskMb} MiB are allowed`)
    } finally {
      content.destroy()
    }
  }

  /** A sandbox that makes its own code has a result, which is kept or removed at its end. */
  #sandbox(instance: LocalInstance): AppSandbox {
    const copies = this.#copies
    let key: string | undefined
    let arrived = () => {}
    const isMaker = linkedBy(instance.dir) === basename(copies.madeBy(instance.id))
    let settled: Promise<void> | undefined
    const settle = () =>
      (settled ??= (key === undefined ? copies.drop(instance.id) : copies.keep(instance.id, key)).catch((error: unknown) => {
        settled = undefined
        throw error
      }))
    return {
      id: instance.id,
      exited: instance.exited,
      unwatch: () => instance.unwatch(),
      get runner() {
        return instance.runner
      },
      stored(stored) {
        if (!isMaker) return
        key = stored
        arrived = copies.expect(stored)
      },
      async [Symbol.asyncDispose]() {
        try {
          await instance[Symbol.asyncDispose]()
          if (isMaker) await settle()
          copies.released()
        } finally {
          arrived()
        }
      },
    }
  }
}

const MIB = 1024 * 1024
/** The API's address for a sandbox without a network. */
const NOWHERE = 'http://127.0.0.1'

const NOT_UNPACKED = 'the code of its deployment could not be unpacked'

/** The reason for callers: the runner's message, or that the object broke off. */
const reasonOf = (error: unknown): string =>
  error instanceof CallFailed && error.status !== undefined ? error.reason : 'its object could not be read to the end'

/** Whether a sandbox still runs, as far as known. */
const isThere = ({ exited }: LocalInstance): Promise<boolean> => Promise.race([exited.then(() => false), Promise.resolve(true)])

const ownedBy = (user: User | undefined) => (path: string, mode: number) => {
  mkdirSync(path, { recursive: true, mode })
  if (user) chownSync(path, user.uid, user.gid)
  return path
}

/** Writes to a pipe if a reader waits at it. Opening it for writing only and non-blocking fails when there is no reader. */
function tell(pipe: string): boolean {
  try {
    const fd = openSync(pipe, constants.O_WRONLY | constants.O_NONBLOCK)
    try {
      writeSync(fd, 'go\n')
    } finally {
      closeSync(fd)
    }
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENXIO') throw error
    return false
  }
}
