// Sandboxes of apps as containers: builds, and runs, whose code comes to each of them.
import type { Config } from '../../base/config.ts'
import { HOST_ALIAS } from '../../base/own-addresses.ts'
import { resultWithin } from '../../base/wait.ts'
import { call, CallFailed } from '../../http/client.ts'
import { environmentFile, runnerScript } from '../../runner/command.ts'
import { runner as runnerCalls, type RunnerSpec } from '../../runner/contract.ts'
import { CodeUnavailable, type AppCode, type AppSandbox, type AppSandboxes } from '../driver.ts'
import type { ContainerInstance, ContainerSettings } from './container.ts'
import { PROGRAM_PORT, type Folder } from './engine.ts'
import { adopting, ENVIRONMENT, MIB, OWN_NODE, startContainer, type Sealed } from './guest.ts'

/** Limit on bringing code, which takes a second for 30 MB. */
const CODE_MS = 10 * 60_000
/** Time between the end of a connection and the notice that its container has ended. */
const EXIT_NEWS_MS = 3_000

/** Where the SDK looks for the API. */
const API_VARIABLE = 'KERNEL_BASE_URL'

const PROGRAMS = { node: '/opt/node/node', own: OWN_NODE, runner: '/opt/cob/src/runner' }

/** Each run unpacks its code in its own memory: nothing of it is left anywhere else, and a run is bounded by its own limits. */
export function containerApps(config: Config, settings: ContainerSettings, sealed: Sealed): AppSandboxes {
  const { engine } = settings

  function start(id: string, runner: RunnerSpec, apiUrl: string, code: AppCode | undefined, signal: AbortSignal): Promise<ContainerInstance> {
    const { hostname, port, protocol } = new URL(apiUrl)
    const spec: RunnerSpec = { ...runner, port: PROGRAM_PORT, graceSeconds: config.abandonedGraceSeconds, ...(code && { awaitsCode: true }) }
    // What the shell reads first: the runner's spec, and the variables that must be set when the app starts. Both may hold secrets of the app.
    const texts = [JSON.stringify(spec), runner.kind === 'run' ? environmentFile(runner.env) : '']
    return startContainer(
      {
        id,
        kind: 'app',
        args: ['app'],
        env: { ...ENVIRONMENT, PATH: '/usr/local/bin:/usr/bin:/bin:/opt/node', COB_SCRIPT: runnerScript(runner.kind, PROGRAMS) },
        lines: texts.map((text) => Buffer.from(text).toString('base64')),
        folders: folders(config),
        limits: { memoryBytes: config.appMemoryMb * MIB, pids: config.appPids, cpuPercent: config.appCpuPercent },
        reaches: [{ host: hostname.replace(/^\[(.*)\]$/, '$1'), port: Number(port || (protocol === 'https:' ? 443 : 80)) }],
      },
      settings,
      sealed,
      signal,
      code && ((instance) => bring(instance, code, signal)),
    )
  }

  /** Gives a run its code. @throws CodeUnavailable */
  async function bring(instance: ContainerInstance, code: AppCode, signal: AbortSignal): Promise<void> {
    const limit = AbortSignal.any([signal, AbortSignal.timeout(CODE_MS)])
    const content = await code.open(limit)
    try {
      await call(instance.runner, runnerCalls.unpackCode, { body: content }, { signal: limit })
    } catch (error) {
      limit.throwIfAborted()
      const end = await resultWithin(EXIT_NEWS_MS, instance.exited, signal)
      const why = end?.reason ?? (error instanceof CallFailed && error.status !== undefined ? error.reason : 'its object could not be read to the end')
      throw new CodeUnavailable(`the code of its deployment could not be unpacked: ${why}`, { cause: error })
    } finally {
      content.destroy()
    }
  }

  // The code is an object, and no copy of it is kept.
  const sandbox = (instance: ContainerInstance): AppSandbox => Object.assign(instance, { stored() {} })

  return {
    async start({ id, code, runner, apiUrl }, signal) {
      return sandbox(await start(id, { ...runner, env: withApi(runner.env, apiUrl) }, apiFor(apiUrl), code, signal))
    },
    found: () => engine.found('app'),
    async adopt(id) {
      const instance = await adopting('app', id, settings, sealed)
      return instance && sandbox(instance)
    },
    async forget() {},
    async [Symbol.asyncDispose]() {},
  }

  /** The API as containers reach it, for the one that the service reaches on its own machine. */
  function apiFor(url: string): string {
    return config.containers.apiUrl ?? `http://${HOST_ALIAS}:${new URL(url).port || 80}`
  }
  function withApi(env: Record<string, string>, url: string): Record<string, string> {
    return { ...env, ...(env[API_VARIABLE] === url && { [API_VARIABLE]: apiFor(url) }) }
  }
}

/** The folders that an app may write. What a build makes and packs is in two of them; each may have all of the disk that apps get, as far as the memory goes. */
function folders(config: Config): Folder[] {
  const memory = config.appMemoryMb * MIB
  const disk = Math.min(config.appDiskMb * MIB, memory)
  const folder = (path: string, bytes: number, mode = '0755', inodes = 400_000) => ({ path, bytes, inodes, mode })
  return [
    folder('/home/kernel', disk, '0700'),
    folder('/app', disk),
    folder('/cache', disk),
    folder('/tmp', Math.ceil(memory / 2), '1777'),
    folder('/dev/shm', Math.ceil(memory / 2), '1777', 20_000),
    folder('/run', 256 * MIB, '0755', 20_000),
    ...['/usr/local', '/var'].map((path) => folder(path, Math.ceil(memory / 4))),
  ]
}
