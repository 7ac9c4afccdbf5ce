// Sandboxes of apps on this machine: their directories, their users, and the code that builds write and runs read.
import { execFile } from 'node:child_process'
import { chmodSync, chownSync, closeSync, constants, mkdirSync, openSync, symlinkSync, writeFileSync, writeSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Config } from '../../base/config.ts'
import { newId } from '../../base/ids.ts'
import type { DataPaths } from '../../base/paths.ts'
import type { Command } from '../../base/unprivileged.ts'
import { instanceUser, type User } from '../../base/user.ts'
import { until } from '../../base/wait.ts'
import { environmentFile } from '../../runner/command.ts'
import type { RunnerSpec } from '../../runner/contract.ts'
import { letGo, type AppSandboxes, type AppSandboxSpec } from '../driver.ts'
import { APP_LINK, appCommand, GO } from './app-command.ts'
import { readyCache } from './build-cache.ts'
import { writeGuestEtc } from './guest-etc.ts'
import { adoptSandbox, foundSandboxes, openSandbox, type LocalInstance, type Place, type SandboxKind } from './instance.ts'
import { planNetwork } from './network.ts'
import { diskOf, diskQuota, memoryOf } from './storage.ts'

/** All builds run as one user, which owns their shared downloads and the code that they make. Each run has a user of its own. */
const BUILDER = 'cob-builder'
/** Setting up a network takes 0.1 s; ten at once on two cores take ten times that. */
const NETWORK_MS = 60_000
const MKFIFO_MS = 10_000
/** A prepared sandbox that is not used within this time is ended. Its network may be out of date as well. */
const KEPT_MS = 10 * 60_000

const run = promisify(execFile)

/** A sandbox whose network is ready and which waits for its code. */
interface Prepared {
  instance: LocalInstance
  user: User | undefined
  /** The path as the started program sees it. */
  apps: string
}

export function localApps(config: Config, paths: DataPaths, kind: SandboxKind, compiled: () => Promise<string>): AppSandboxes {
  // Each sandbox's user passes through it to the one folder that the sandbox mounts. Other users cannot come this far.
  chmodSync(paths.apps, 0o711)
  const limits = { memoryBytes: config.appMemoryMb * 1024 * 1024, pids: config.appPids, cpuPercent: config.appCpuPercent }

  async function prepare(what: 'build' | 'run', id: string, apiUrl: string, code?: string): Promise<Prepared> {
    const user = instanceUser(what === 'build' ? BUILDER : id)
    let apps = ''
    const fill = async ({ dir, groups, bounds, before }: Place): Promise<Command> => {
      const own = ownedBy(user)
      const [spec, etc] = [own(join(dir, 'spec'), 0o700), join(dir, 'etc')]
      await run('mkfifo', ['-m', '600', join(spec, GO)], { timeout: MKFIFO_MS })
      if (user) chownSync(join(spec, GO), user.uid, user.gid)
      const network = planNetwork(config.allowHostLoopback, [Number(new URL(apiUrl).port || 80)])
      const downloads = what === 'build' ? own(paths.buildCache, 0o700) : undefined
      const folders = { home: own(join(diskOf(dir), 'home'), 0o700), memory: memoryOf(dir), etc, spec, apps: paths.apps, cache: await compiled(), downloads }
      const command = appCommand({ kind: what, folders, bounds, before, etcFiles: writeGuestEtc(etc, network), network, user, groups })
      apps = command.seen.apps!
      return command
    }
    // The result of a build outlives the build, so it lies outside of the build's disk. Of the shared downloads, only what a build adds counts for it.
    const sharedBefore = code === undefined ? undefined : await readyCache(paths.buildCache, kind.usage, kind.trash, kind.log)
    const shared = code === undefined ? [] : sharedBefore ? [code, paths.buildCache] : [code]
    return { instance: await openSandbox(kind, { id, limits, disk: diskQuota(config.appDiskMb), shared, sharedBefore, prepare: fill }), user, apps }
  }

  /** Gives a prepared sandbox its input. */
  async function begin({ instance, user, apps }: Prepared, { deployment, runner }: AppSandboxSpec, signal: AbortSignal): Promise<LocalInstance> {
    try {
      const spec = join(instance.dir, 'spec')
      const files = {
        'runner.json': JSON.stringify({ ...runner, graceSeconds: config.abandonedGraceSeconds } satisfies RunnerSpec),
        ...(runner.kind === 'run' && { environment: environmentFile(runner.env) }),
      }
      for (const [name, text] of Object.entries(files)) {
        writeFileSync(join(spec, name), text, { mode: 0o400 })
        if (user) chownSync(join(spec, name), user.uid, user.gid)
      }
      symlinkSync(join(apps, deployment), join(spec, APP_LINK))
      const gone = instance.exited.then(({ reason }) => Promise.reject(new Error(reason)))
      gone.catch(() => {})
      const told = until('a sandbox to have its network', NETWORK_MS, () => tell(join(spec, GO)), { everyMs: 1, signal })
      await Promise.race([told, gone])
    } catch (error) {
      await letGo(instance, kind.log)
      throw error
    }
    return instance.up(signal)
  }

  let next: { made: Promise<Prepared>; apiUrl: string; timer: NodeJS.Timeout } | undefined
  let stopped = false
  const letNextGo = async (): Promise<void> => {
    const kept = next
    next = undefined
    clearTimeout(kept?.timer)
    await kept?.made.then(
      ({ instance }) => letGo(instance, kind.log),
      () => {},
    )
  }
  /** Prepares a sandbox for the next run. */
  const refill = (apiUrl: string) => {
    if (stopped || next) return
    const made = prepare('run', newId(), apiUrl)
    made.catch((err: unknown) => kind.log.warn({ err }, 'a sandbox could not be prepared'))
    next = {
      made,
      apiUrl,
      timer: setTimeout(() => void letNextGo(), KEPT_MS).unref(),
    }
  }
  const take = async (apiUrl: string): Promise<Prepared> => {
    const kept = next
    next = undefined
    clearTimeout(kept?.timer)
    const prepared = await kept?.made.catch(() => undefined)
    if (prepared && kept?.apiUrl === apiUrl && (await isThere(prepared.instance))) return prepared
    if (prepared) await letGo(prepared.instance, kind.log)
    return prepare('run', newId(), apiUrl)
  }

  return {
    async start(spec, signal) {
      signal.throwIfAborted()
      if (spec.runner.kind === 'run') {
        const prepared = await take(spec.apiUrl)
        // After this start and not at the same time, so that it does not slow it down.
        const instance = await begin(prepared, spec, signal).finally(() => refill(spec.apiUrl))
        return instance
      }
      // Remains of an interrupted build would block the next one.
      const code = join(paths.apps, spec.deployment)
      await kind.trash.discard(code)
      ownedBy(instanceUser(BUILDER))(code, 0o755)
      return begin(await prepare('build', spec.id, spec.apiUrl, code), spec, signal)
    },
    found: async () => foundSandboxes(kind),
    adopt: (id) => adoptSandbox(kind, id),
    codes: () => readdir(paths.apps),
    removeCode: (deployment) => kind.trash.discard(join(paths.apps, deployment)),
    async [Symbol.asyncDispose]() {
      stopped = true
      await letNextGo()
    },
  }
}

/** Whether a sandbox still runs, as far as is known. */
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
