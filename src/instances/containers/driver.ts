// The driver over an engine of containers: what an instance is told, what it may use, and how the next service finds it again. docs/decisions/0088-containers.md
import { xvfbCommand, type AgentSpec } from '../../agent/spec.ts'
import type { Config } from '../../base/config.ts'
import type { Log } from '../../base/log.ts'
import type { Endpoint } from '../../http/endpoint.ts'
import type { Endpoints, StoredEndpoint } from '../../http/stored-endpoint.ts'
import { makeAgentKeys } from '../agent-keys.ts'
import { CodeUnavailable, type Driver, type InstanceSpec } from '../driver.ts'
import { ContainerInstance } from './container.ts'
import { type Engine, type Folder, PROGRAM_PORT } from './engine.ts'

/** The paths of the image (images/instance.Dockerfile). */
const CACHE_DIR = '/opt/cob-cache'
export const CHROMIUM = '/usr/lib/chromium/chromium'

const MIB = 1024 * 1024

export interface ContainerDriverSettings {
  config: Config
  engine: Engine
  /** Seals the credential in what the engine keeps for the next service. */
  endpoints: Endpoints
  log: Log
}

/** Makes the driver. Instances do not sleep, and what a browser has open when it gets a proxy goes on directly: an engine stops all of a container or nothing of it, agent included. */
export function containerDriver({ config, engine, endpoints, log }: ContainerDriverSettings): Driver {
  const stop = new AbortController()
  const settings = { engine, log, signal: stop.signal }
  const noApps = () => Promise.reject(new CodeUnavailable('apps do not run as containers yet: use COB_DRIVER=local for them'))
  return {
    apps: {
      start: noApps,
      found: async () => [],
      adopt: async () => undefined,
      async forget() {},
      async [Symbol.asyncDispose]() {},
    },
    async start(spec, signal) {
      signal.throwIfAborted()
      const { server, pinned } = await makeAgentKeys()
      const agent: Endpoint = { host: '', port: PROGRAM_PORT, ...pinned }
      const instance = new ContainerInstance('browser', spec.id, agent, settings)
      await using scope = new AsyncDisposableStack()
      scope.defer(() => instance[Symbol.asyncDispose]().catch(() => {})) // it logs the failure and retries
      const address = await engine.start(
        {
          id: spec.id,
          kind: 'browser',
          args: ['browser'],
          env: environment(config, spec),
          input: `${JSON.stringify(server)}\n`,
          folders: browserFolders(config),
          limits: { memoryBytes: config.instanceMemoryMb * MIB, pids: config.instancePids, cpuPercent: config.instanceCpuPercent },
          note: JSON.stringify(endpoints.store(agent, spec.id)),
        },
        signal,
      )
      instance.agent = { ...agent, ...address }
      await instance.up(address, signal)
      scope.move() // the instance is now its caller's
      return instance
    },
    found: () => engine.found('browser'),
    async adopt(id) {
      const running = await engine.running('browser', id)
      const agent = running && opened(running.note, id)
      if (running && agent) return new ContainerInstance('browser', id, { ...agent, ...running.address }, settings).adopted()
      await new ContainerInstance('browser', id, { host: '', port: PROGRAM_PORT }, settings)[Symbol.asyncDispose]().catch(() => {}) // it logs the failure and retries
      return undefined
    },
    relieve: async () => undefined, // nothing of an instance is on a disk
    async [Symbol.asyncDispose]() {
      stop.abort(new Error('the service stops'))
      await engine[Symbol.asyncDispose]()
    },
  }

  /** Undefined when it was sealed with a key that this service does not have. */
  function opened(note: string, id: string): Endpoint | undefined {
    try {
      return endpoints.open(JSON.parse(note) as StoredEndpoint, id)
    } catch (err) {
      log.error({ err, instance: id }, 'an instance cannot be reached with the keys of this service, and is ended')
      return undefined
    }
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
    XDG_RUNTIME_DIR: '/run/cob',
    // There is no D-Bus. Looking for it would cost every start a few refused connections.
    DBUS_SESSION_BUS_ADDRESS: 'disabled:',
    COB_AGENT: JSON.stringify(agent),
    COB_DISPLAY: xvfbCommand(spec.maxScreen).join(' '),
  }
}

const ENVIRONMENT = {
  HOME: '/home/kernel',
  USER: 'kernel',
  LANG: 'C.UTF-8',
  // The agent uses the image's own programs. Programs that a session installs in its /usr/local are for its own processes (agent/spec.ts).
  PATH: `/opt/local/bin:/usr/bin:/bin:/opt/node`,
  TMPDIR: '/tmp',
  NODE_COMPILE_CACHE: CACHE_DIR,
  COB_ZONE: Intl.DateTimeFormat().resolvedOptions().timeZone,
}

/**
 * The folders that an instance may write; sizes as the local driver's (local/storage.ts). A home may take half of the memory: a full one then refuses writes before the kernel
 * ends a process for want of memory.
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
