// The default driver: instances as sandboxed processes of this machine, one directory each.
import { statSync } from 'node:fs'
import { chown, mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Config } from '../../base/config.ts'
import { newId } from '../../base/ids.ts'
import type { Log } from '../../base/log.ts'
import { PACKAGE_DIR, type DataPaths } from '../../base/paths.ts'
import type { Command } from '../../base/unprivileged.ts'
import { instanceUser, isRoot } from '../../base/user.ts'
import { within } from '../../base/wait.ts'
import type { Driver, InstanceForm, InstanceSpec } from '../driver.ts'
import { lastAttempts } from '../retried-end.ts'
import { agentCache } from './agent-cache.ts'
import { LocalApps } from './apps.ts'
import { LaterAddresses } from './close-later.ts'
import { localDirectWays } from './direct-ways.ts'
import { writeGuestEtc } from './guest-etc.ts'
import { adoptSandbox, beginPrepared, foundSandboxes, prepareSandbox, startSandbox, unlisted, type Place, type SandboxKind } from './instance.ts'
import { findLimits } from './limits.ts'
import { planNetwork } from './network.ts'
import { sharedPlaces } from './places.ts'
import { PreparedSandboxes } from './prepared.ts'
import { AGENT_ENTRY, sandboxCommand } from './sandbox.ts'
import { diskOf, diskQuota, findStorage, type Storage } from './storage.ts'
import { OomKills } from './oom.ts'
import { localStandby } from './standby.ts'
import { Trash } from './trash.ts'
import { Usage } from './usage.ts'
import { userAgentOf } from './user-agent.ts'

/** Limits for compiling (agent-cache.ts). */
const COMPILE_MS = 150_000

/** Makes the local driver. `scope` separates this installation's instances from another's; `replica` names the service that starts them. */
export function localDriver(config: Config, paths: DataPaths, scope: string, log: Log, replica: string = newId()): Driver {
  const limits = findLimits(scope)
  for (const finding of limits.findings) log.warn({}, finding)
  if (isRoot()) assertReadable()
  const stop = new AbortController()
  const trash = new Trash(paths.trash, log)
  // Files that an earlier service has not finished removing.
  trash.empty()
  const addresses = new LaterAddresses(log)
  const usage = new Usage(log, stop.signal)
  let found: Promise<Storage> | undefined
  const storage = () =>
    (found ??= findStorage(paths.root).then((it) => {
      if (it.finding) log.warn({}, it.finding)
      return it
    }))
  const standby = localStandby({ root: paths.instances, limits, log })
  const browsers: SandboxKind = {
    root: paths.instances,
    limits,
    standby,
    addresses,
    storage,
    usage,
    kills: new OomKills(scope, log, stop.signal),
    trash,
    replica,
    overTls: config.driver === 'local-tls',
    log,
    signal: stop.signal,
    failedEnds: new Set(),
  }
  const runs: SandboxKind = { ...browsers, root: paths.appSandboxes, standby: undefined, kills: undefined, limits: findLimits(`${scope}-apps`) }
  const apps = new LocalApps(config, paths, runs, () => compiled())

  const places = sharedPlaces(paths.root)
  let cache: Promise<string> | undefined
  const compiled = () =>
    (cache ??= agentCache(paths.root, config, trash, stop.signal).catch((error: unknown) => {
      cache = undefined // the next start tries again
      throw error
    }))

  const planOf = ({ id, wanted, ...form }: InstanceSpec, signal: AbortSignal, isPrepared = false) => ({
    id,
    limits: { memoryBytes: config.instanceMemoryMb * MIB, pids: config.instancePids, cpuPercent: config.instanceCpuPercent },
    disk: diskQuota(config.instanceDiskMb),
    content: { folder: places(), user: instanceUser(id) },
    wanted,
    isPrepared,
    prepare: async (place: Place) => command(config, id, form, isPrepared, place, await within('the compiled code', COMPILE_MS, compiled(), signal)),
  })
  const prepared = new PreparedSandboxes({
    most: config.preparedSandboxes,
    make: (id, form, signal) => prepareSandbox(browsers, planOf({ id, ...form }, signal, true), signal),
    log,
  })

  return {
    apps,
    loadsPages: true,
    directWays: localDirectWays({ root: paths.instances, members: (id) => limits.members(id), chromium: config.chromium, log }),
    ...(standby && { standby }),
    reserve: (form) => prepared.reserve(form),
    start: (spec, signal) =>
      prepared.aside(async () => {
        const ready = prepared.take(spec.id)
        return ready ? beginPrepared(browsers, ready, spec.wanted, signal) : startSandbox(browsers, planOf(spec, signal), signal)
      }),
    found: async () => foundSandboxes(browsers),
    adopt: (id) => adoptSandbox(browsers, id),
    relieve: () => usage.endLargest([browsers, runs].flatMap(unlisted)),
    async [Symbol.asyncDispose]() {
      // First, so that no start waits for code that is being compiled.
      stop.abort(new Error('the service stops'))
      addresses[Symbol.dispose]()
      await prepared[Symbol.asyncDispose]()
      await apps[Symbol.asyncDispose]()
      await lastAttempts(browsers.failedEnds)
      await limits.freezer?.[Symbol.asyncDispose]()
      await cache?.catch(() => {})
      await trash[Symbol.asyncDispose]()
    },
  }
}

const MIB = 1024 * 1024

/** The command of an instance. `waits`: it starts its browser when it is told to. */
async function command(config: Config, id: string, spec: InstanceForm, waits: boolean, place: Place, cache: string): Promise<Command> {
  const { dir, groups, bounds, before } = place
  const user = instanceUser(id)
  const home = join(diskOf(dir), 'home')
  await mkdir(home, { mode: 0o700 })
  if (user) await chown(home, user.uid, user.gid)
  const network = planNetwork(config.allowHostLoopback)
  const etcFiles = await writeGuestEtc(join(dir, 'etc'), network)
  const agent = {
    id,
    waits,
    viewport: spec.viewport,
    maxScreen: spec.maxScreen,
    chromium: config.chromium,
    lean: spec.lean ? { program: config.headlessShell, userAgent: await userAgentOf(config.headlessShell) } : undefined,
    logLevel: config.logLevel,
    apiPorts: [...spec.apiPorts],
    graceSeconds: config.abandonedGraceSeconds,
  }
  return sandboxCommand({ spec: agent, dir, bounds, before, etcFiles, network, user, groups, cache: { dir: cache, writable: false }, entry: AGENT_ENTRY })
}

/** When root starts the service, instances run as other users. These users must be able to read the code. */
function assertReadable(): void {
  for (const file of ['src', 'src/agent/main.ts', 'node_modules', 'package.json'])
    if ((statSync(join(PACKAGE_DIR, file)).mode & 0o004) === 0)
      throw new Error(`${join(PACKAGE_DIR, file)} is readable for root only; instances run unprivileged and need it (chmod -R o+rX)`)
}
