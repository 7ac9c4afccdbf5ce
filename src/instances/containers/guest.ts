// What the image expects and contains (images/instance.Dockerfile, images/guest), and the sealing of a container's note.
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

/** The note that an engine keeps of a container for the next service: the address of its program, and the sealed credential. */
export interface Sealed {
  note(agent: Endpoint, id: string): string
  /** Undefined when this service does not have the key that sealed it. */
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

/**
 * Waits before the engine is searched for the container of a failed start: an engine that was away or overloaded may make the container long after the service
 * has given up the call. The first wait begins with the failure, each other one with the search before it.
 */
const LATE_MS = [30_000, 120_000, 600_000]

/** A container to start. The keys of its program are made here, and are the last of its `lines` of standard input. */
export type Wanted = Omit<ContainerPlan, 'input' | 'note'> & { lines?: string[] }

/** Starts a container and resolves when its program answers. On failure, everything that was started is ended. `then` runs the remaining steps of the start. */
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

/** Whether the engine was not reached, or the connection to it broke: an error of a socket, or an error that was caused by one. */
function isAway(error: unknown): boolean {
  const { code, cause } = (error ?? {}) as { code?: unknown; cause?: unknown }
  return (typeof code === 'string' && /^(E[A-Z]+|UND_ERR_\w+)$/.test(code)) || (cause !== undefined && isAway(cause))
}

/** Watches a container that another service has started. Undefined when it does not run any more, or cannot be reached; then its remains are removed. */
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

/**
 * Removes a container that an engine makes after the start was given up. If the service is killed meanwhile, the next one removes it, because it has no row.
 */
async function removeLate(kind: ContainerKind, id: string, settings: ContainerSettings): Promise<void> {
  for (const ms of settings.lateMs ?? LATE_MS) {
    await sleep(ms, settings.signal).catch(() => {})
    if (settings.signal.aborted) return
    await remove(kind, id, settings)
  }
}
