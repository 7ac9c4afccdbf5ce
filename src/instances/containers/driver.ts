// The driver over an engine of containers: the input of an instance, its limits, and how the next service finds it. docs/decisions/0088-containers.md
import { xvfbCommand, type AgentSpec } from '../../agent/spec.ts'
import type { Config } from '../../base/config.ts'
import type { Log } from '../../base/log.ts'
import type { Endpoints } from '../../http/stored-endpoint.ts'
import type { Driver, InstanceSpec } from '../driver.ts'
import { lastAttempts, type FailedEnds } from '../retried-end.ts'
import { containerApps } from './apps.ts'
import { type Engine, type Folder, PROGRAM_PORT } from './engine.ts'
import { adopting, CHROMIUM, ENVIRONMENT, MIB, sealedNotes, startContainer } from './guest.ts'

interface ContainerDriverSettings {
  config: Config
  engine: Engine
  /** Seals the credential in the note that the engine keeps for the next service. */
  endpoints: Endpoints
  log: Log
}

/**
 * Makes the driver. It has no standby, and does not close a browser's direct connections when it gets a proxy: an engine can only stop a whole container, the
 * agent included.
 */
export function containerDriver({ config, engine, endpoints, log }: ContainerDriverSettings): Driver {
  const stop = new AbortController()
  const failedEnds: FailedEnds = new Set()
  const settings = { engine, log, signal: stop.signal, failedEnds }
  const sealed = sealedNotes(endpoints, log)
  return {
    apps: containerApps(config, settings, sealed),
    start: (spec, signal) =>
      startContainer(
        {
          id: spec.id,
          kind: 'browser',
          args: ['browser'],
          env: environment(config, spec),
          folders: browserFolders(config),
          limits: { memoryBytes: config.instanceMemoryMb * MIB, pids: config.instancePids, cpuPercent: config.instanceCpuPercent },
          reaches: [],
        },
        settings,
        sealed,
        signal,
      ),
    loadsPages: true,
    found: () => engine.found('browser'),
    adopt: (id) => adopting('browser', id, settings, sealed),
    relieve: async () => undefined, // an instance has nothing on a disk
    async [Symbol.asyncDispose]() {
      stop.abort(new Error('the service stops'))
      await lastAttempts(failedEnds)
      await engine[Symbol.asyncDispose]()
    },
  }
}

function environment(config: Config, spec: InstanceSpec): Record<string, string> {
  const agent: AgentSpec = {
    id: spec.id,
    viewport: spec.viewport,
    maxScreen: spec.maxScreen,
    chromium: CHROMIUM,
    logLevel: config.logLevel,
    apiPorts: [...spec.apiPorts],
    graceSeconds: config.abandonedGraceSeconds,
    port: PROGRAM_PORT,
  }
  return {
    ...ENVIRONMENT,
    // The agent uses the image's own programs. Programs that a session installs in its /usr/local are for its own processes (agent/spec.ts).
    PATH: '/opt/local/bin:/usr/bin:/bin:/opt/node',
    XDG_RUNTIME_DIR: '/run/cob',
    // There is no D-Bus. Looking for it would cost every start a few refused connections.
    DBUS_SESSION_BUS_ADDRESS: 'disabled:',
    COB_AGENT: JSON.stringify(agent),
    COB_DISPLAY: xvfbCommand(spec.maxScreen).join(' '),
  }
}

/**
 * The folders that an instance may write; sizes as the local driver's (local/storage.ts). A home may take half of the memory: a full home then refuses writes
 * before the kernel ends a process for want of memory.
 */
function browserFolders(config: Config): Folder[] {
  const memory = config.instanceMemoryMb * MIB
  const half = Math.ceil(memory / 2)
  const folder = (path: string, bytes: number, mode = '0755', inodes = 200_000) => ({ path, bytes, inodes, mode })
  return [
    folder('/home/kernel', Math.min(config.instanceDiskMb * MIB, half), '0700'),
    folder('/tmp', half, '1777'),
    folder('/dev/shm', half, '1777', 20_000),
    folder('/run', 256 * MIB, '0755', 20_000),
    ...['/app', '/data', '/usr/local', '/var'].map((path) => folder(path, half)),
    folder('/root', half, '0700'),
    folder('/etc/chromium/policies', 8 * MIB, '0755', 100),
  ]
}
