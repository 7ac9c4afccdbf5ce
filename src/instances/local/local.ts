// The default driver: instances as sandboxed processes of this machine, one directory each.
import { chownSync, mkdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { Config } from '../../base/config.ts'
import type { Log } from '../../base/log.ts'
import { PACKAGE_DIR, type DataPaths } from '../../base/paths.ts'
import type { Command } from '../../base/unprivileged.ts'
import { instanceUser, isRoot } from '../../base/user.ts'
import { within } from '../../base/wait.ts'
import type { Driver, InstanceSpec } from '../driver.ts'
import { agentCache } from './agent-cache.ts'
import { localApps } from './apps.ts'
import { writeGuestEtc } from './guest-etc.ts'
import { listSandboxes, startSandbox, type SandboxKind } from './instance.ts'
import { findLimits } from './limits.ts'
import { planNetwork } from './network.ts'
import { AGENT_ENTRY, sandboxCommand } from './sandbox.ts'
import { Trash } from './trash.ts'

/** Compiling has limits of its own (agent-cache.ts). */
const COMPILE_MS = 150_000

/** Makes the local driver. `scope` tells this installation's instances from another's. */
export function localDriver(config: Config, paths: DataPaths, scope: string, log: Log): Driver {
  const limits = findLimits(scope)
  if (limits.finding) log.warn({}, limits.finding)
  if (isRoot()) assertReadable()
  const stop = new AbortController()
  const trash = new Trash(paths.trash, log)
  // What a service before us has not removed to the end.
  trash.empty()
  const shared = { trash, log, signal: stop.signal }
  const browsers: SandboxKind = { root: paths.instances, limits, ...shared }
  const apps = localApps(config, paths, { root: paths.appSandboxes, limits: findLimits(`${scope}-apps`), ...shared }, () => compiled())

  let cache: Promise<string> | undefined
  const compiled = () =>
    (cache ??= agentCache(paths.root, trash, stop.signal).catch((error: unknown) => {
      cache = undefined // the next start tries again
      throw error
    }))

  return {
    apps,
    start(spec, signal) {
      const limited = { memoryBytes: config.instanceMemoryMb * 1024 * 1024, pids: config.instancePids }
      const prepare = async (dir: string, groups: string[]) =>
        command(config, spec, dir, groups, await within('the compiled code', COMPILE_MS, compiled(), signal))
      return startSandbox(browsers, { id: spec.id, limits: limited, prepare }, signal)
    },
    list: () => listSandboxes(browsers),
    async [Symbol.asyncDispose]() {
      // First of all, so that nothing waits for code that is being compiled.
      stop.abort(new Error('the service stops'))
      await apps[Symbol.asyncDispose]()
      await cache?.catch(() => {})
      await trash[Symbol.asyncDispose]()
    },
  }
}

function command(config: Config, spec: InstanceSpec, dir: string, groups: string[], cache: string): Command {
  const user = instanceUser(spec.id)
  const home = join(dir, 'home')
  mkdirSync(home, { mode: 0o700 })
  if (user) chownSync(home, user.uid, user.gid)
  const network = planNetwork(config.allowHostLoopback)
  const etcFiles = writeGuestEtc(join(dir, 'etc'), network)
  const agent = {
    id: spec.id,
    viewport: spec.viewport,
    maxScreen: spec.maxScreen,
    chromium: config.chromium,
    logLevel: config.logLevel,
    graceSeconds: config.abandonedGraceSeconds,
  }
  return sandboxCommand({ spec: agent, dir, etcFiles, network, user, groups, cache: { dir: cache, writable: false }, entry: AGENT_ENTRY })
}

/** Started by root, instances run as other users, who must be able to read the code. */
function assertReadable(): void {
  for (const file of ['src', 'src/agent/main.ts', 'node_modules', 'package.json'])
    if ((statSync(join(PACKAGE_DIR, file)).mode & 0o004) === 0)
      throw new Error(`${join(PACKAGE_DIR, file)} is readable for root only; instances run unprivileged and need it (chmod -R o+rX)`)
}
