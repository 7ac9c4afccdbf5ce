// What the image expects and has (images/instance.Dockerfile, images/guest), and how what an engine keeps of a container is sealed.
import type { Log } from '../../base/log.ts'
import { sleep } from '../../base/wait.ts'
import type { Endpoint } from '../../http/endpoint.ts'
import type { Endpoints, StoredEndpoint } from '../../http/stored-endpoint.ts'
import { makeAgentKeys } from '../agent-keys.ts'
import { EngineAway } from '../driver.ts'
import { ContainerInstance, type ContainerSettings } from './container.ts'
import { PROGRAM_PORT, type ContainerKind, type ContainerPlan } from './engine.ts'

export const MIB = 1024 * 1024

export const CACHE_DIR = '/opt/cob-cache'
export const CHROMIUM = '/usr/lib/chromium/chromium'

/** Node for a program of ours: closed to other programs of the same user, and deaf to SIGUSR1 (local/sandbox.ts). */
export const OWN_NODE = [
  `${CACHE_DIR}/loader`,
  '--argv0',
  '/opt/node/node',
  '/opt/node/node',
  '--disable-sigusr1',
  '--disable-warning=ExperimentalWarning',
  '--max-semi-space-size=1',
]

/** Variables of every program. */
export const ENVIRONMENT = {
  HOME: '/home/kernel',
  USER: 'kernel',
  LANG: 'C.UTF-8',
  TMPDIR: '/tmp',
  NODE_COMPILE_CACHE: CACHE_DIR,
  COB_ZONE: Intl.DateTimeFormat().resolvedOptions().timeZone,
}

/** What an engine keeps of a container for the next service: where its program answers, with the credential sealed. */
export interface Sealed {
  note(agent: Endpoint, id: string): string
  /** Undefined when it was sealed with a key that this service does not have. */
  opened(note: string, id: string): Endpoint | undefined
}

export const sealedNotes = (endpoints: Endpoints, log: Log): Sealed => ({
  note: (agent, id) => JSON.stringify(endpoints.store(agent, id)),
  opened(note, id) {
    try {
      return endpoints.open(JSON.parse(note) as StoredEndpoint, id)
    } catch (err) {
      log.error({ err, instance: id }, 'an instance cannot be reached with the keys of this service, and is ended')
      return undefined
    }
  },
})

/** When it is looked for a container whose start failed at its engine: one that was away or overloaded may make it long after the call for it was given up. From the failure, each after the last. */
const LATE_MS = [30_000, 120_000, 600_000]

/** A container to start. The keys of its program are made here, and are the last of its `lines` of standard input. */
export type Wanted = Omit<ContainerPlan, 'input' | 'note'> & { lines?: string[] }

/** Starts a container and resolves when its program answers. On failure, everything that was started is ended. `then` does what belongs to the start besides. */
export async function startContainer(
  { lines = [], ...plan }: Wanted,
  settings: ContainerSettings,
  sealed: Sealed,
  signal: AbortSignal,
  then?: (instance: ContainerInstance) => Promise<void>,
): Promise<ContainerInstance> {
  signal.throwIfAborted()
  const { server, pinned } = await makeAgentKeys()
  const agent: Endpoint = { host: '', port: PROGRAM_PORT, ...pinned }
  const instance = new ContainerInstance(plan.kind, plan.id, agent, settings)
  await using scope = new AsyncDisposableStack()
  scope.defer(() => instance[Symbol.asyncDispose]().catch(() => {})) // it logs the failure and retries
  const input = [...lines, JSON.stringify(server), ''].join('\n')
  const address = await settings.engine.start({ ...plan, input, note: sealed.note(agent, plan.id) }, signal).catch((error: unknown) => {
    void removeLate(plan.kind, plan.id, settings)
    throw isAway(error) ? new EngineAway(error) : error
  })
  instance.agent = { ...agent, ...address }
  await instance.up(address, signal)
  await then?.(instance)
  scope.move() // the instance is now its caller's
  return instance
}

/** Whether the engine was not reached, or the connection to it broke off: an error of a socket, or one that such an error has caused. */
function isAway(error: unknown): boolean {
  const { code, cause } = (error ?? {}) as { code?: unknown; cause?: unknown }
  return (typeof code === 'string' && /^(E[A-Z]+|UND_ERR_\w+)$/.test(code)) || (cause !== undefined && isAway(cause))
}

/** Watches a container that another service has started. Undefined when it does not run any more, or cannot be reached; what is left of it is removed then. */
export async function adopting(kind: ContainerKind, id: string, settings: ContainerSettings, sealed: Sealed): Promise<ContainerInstance | undefined> {
  const running = await settings.engine.running(kind, id)
  const agent = running && sealed.opened(running.note, id)
  if (running && agent) return new ContainerInstance(kind, id, { ...agent, ...running.address }, settings).adopted()
  await remove(kind, id, settings)
  return undefined
}

async function remove(kind: ContainerKind, id: string, settings: ContainerSettings): Promise<void> {
  await new ContainerInstance(kind, id, { host: '', port: PROGRAM_PORT }, settings)
    [Symbol.asyncDispose]()
    .catch((err: unknown) => settings.log.debug({ err }, 'tried again'))
}

/** Removes what an engine makes of a start that was given up. A service that is killed meanwhile leaves it to the next one, which finds what no row knows. */
async function removeLate(kind: ContainerKind, id: string, settings: ContainerSettings): Promise<void> {
  for (const ms of settings.lateMs ?? LATE_MS) {
    await sleep(ms, settings.signal).catch(() => {})
    if (settings.signal.aborted) return
    await remove(kind, id, settings)
  }
}
