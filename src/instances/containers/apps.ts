// Sandboxes of apps as containers: builds, and runs. Each run receives its code through a connection.
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

/** The variable in which the SDK looks for the API's URL. */
const API_VARIABLE = 'KERNEL_BASE_URL'

const PROGRAMS = { node: '/opt/node/node', own: OWN_NODE, runner: '/opt/cob/src/runner' }

/** Each run unpacks its code in its own memory: its code is stored nowhere else, and the run's own limits apply. */
export function containerApps(config: Config, settings: ContainerSettings, sealed: Sealed): AppSandboxes {
  const { engine } = settings

  function start(id: string, runner: RunnerSpec, apiUrl: string, code: AppCode | undefined, signal: AbortSignal): Promise<ContainerInstance> {
    const { hostname, port, protocol } = new URL(apiUrl)
    const spec: RunnerSpec = { ...runner, port: PROGRAM_PORT, graceSeconds: config.abandonedGraceSeconds, ...(code && { awaitsCode: true }) }
    // The shell reads these first: the runner's spec, and the variables that must be set when the app starts. Both may hold secrets of the app.
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

  // The code is an object of the store, and no copy is kept.
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

  /** The API's address for containers, when the service itself reaches it on its own machine. */
  function apiFor(url: string): string {
    return config.containers.apiUrl ?? `http://${HOST_ALIAS}:${new URL(url).port || 80}`
  }
  function withApi(env: Record<string, string>, url: string): Record<string, string> {
    return { ...env, ...(env[API_VARIABLE] === url && { [API_VARIABLE]: apiFor(url) }) }
  }
}

/** The folders that an app may write. Two of them hold what a build makes and packs. Each may use the whole disk limit of apps, as far as the memory allows. */
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
