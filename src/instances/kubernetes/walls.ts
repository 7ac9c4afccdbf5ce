// Closes the network of instances by policies of their scope; refuses a cluster that does not enforce them.
import type { V1NetworkPolicy } from '@kubernetes/client-node'
import type { Log } from '../../base/log.ts'
import { abortable } from '../../base/wait.ts'
import type { Address, ContainerKind } from '../containers/engine.ts'
import { labelsOf } from '../containers/labels.ts'
import { failed, hasStatus, listPods, type Cluster } from './api.ts'
import { assertEnforced, nodeResolvers } from './enforced.ts'
import { hasStopped, serversOf, type PodSettings } from './pod.ts'
import { namesPolicyOf, policyOf, targetPolicyOf } from './policy.ts'
import type { StartPod } from './starts.ts'

/** A start that received an address has made its pod within this time, and the pod then names the address. Afterwards unneeded addresses are closed. */
const STARTING_MS = 5 * 60_000
/** Most addresses that a policy leaves open, the newest first. */
const MAX_SERVERS = 64

interface WallsSettings {
  cluster: Cluster
  config: PodSettings['config']
  scope: string
  startPod: StartPod
  log: Log
  /** {@link STARTING_MS}, unless given. */
  startingMs?: number
}

export interface Walls {
  /**
   * Resolves when the network of a kind is closed to everything except `servers` and those that its pods have received. It is closed once, and again for a new
   * address. | @throws when it cannot be closed, or the policies are not enforced
   */
  close(kind: ContainerKind, servers: readonly Address[], signal: AbortSignal): Promise<void>
  /** The resolvers of instances: those of the settings, or those of the nodes, which are read once. After this, their port 53 is open to instances. */
  resolvers(signal: AbortSignal): Promise<readonly string[]>
}

export function makeWalls({ cluster, config, scope, startPod, log, startingMs = STARTING_MS }: WallsSettings): Walls {
  const { networking, namespace, serviceNamespace } = cluster
  const trial = { cluster, config, scope, startPod, log }
  const { kubernetes, containers } = config
  /** The servers that the policies leave open, by kind, and since when. */
  const closed = new Map<ContainerKind, Promise<{ servers: readonly Address[]; at: number }>>()
  /** Servers that starts have received, and when, by kind; the latest one is last. */
  const sent = new Map<ContainerKind, Map<string, { server: Address; at: number }>>()
  /** The trials of the enforcement of policies, by kind. */
  const enforced = new Map<ContainerKind, Promise<void>>()
  let names: Promise<readonly string[]> | undefined

  async function close(kind: ContainerKind, servers: readonly Address[], signal: AbortSignal): Promise<void> {
    const starting = sent.get(kind) ?? new Map<string, { server: Address; at: number }>()
    sent.set(kind, starting)
    const now = performance.now()
    for (const [key, { at }] of starting) if (now - at > startingMs) starting.delete(key)
    for (const server of servers) {
      starting.delete(keyOf(server))
      starting.set(keyOf(server), { server, at: now })
    }
    for (;;) {
      const known = closed.get(kind) ?? put(kind, servers)
      if (!closed.has(kind)) {
        closed.set(kind, known)
        known.catch(() => closed.delete(kind))
      }
      const { at, servers: opened } = await abortable(known, signal)
      const open = new Set(opened.map(keyOf))
      const isOld = open.size > servers.length && performance.now() - at > startingMs
      if (!isOld && servers.every((server) => open.has(keyOf(server)))) break
      if (closed.get(kind) === known) closed.delete(kind)
    }
    if (kubernetes.allowOpenNetwork) return
    const known = enforced.get(kind) ?? putPolicy(targetPolicyOf(scope)).then(() => assertEnforced(kind, trial))
    enforced.set(kind, known)
    known.catch(() => enforced.delete(kind))
    await abortable(known, signal)
  }

  async function findResolvers(): Promise<readonly string[]> {
    let { resolvers } = containers
    if (resolvers.length === 0) {
      await put('browser', []) // the policy by which the trial's pod can be reached
      resolvers = await nodeResolvers(trial)
      if (resolvers.length === 0) log.warn({}, 'the nodes have no resolvers that pods reach, so sessions cannot look up names: set COB_CONTAINER_DNS')
    }
    if (resolvers.length > 0) await putPolicy(namesPolicyOf(resolvers, scope))
    return resolvers
  }

  function resolvers(signal: AbortSignal): Promise<readonly string[]> {
    const known = (names ??= findResolvers())
    known.catch(() => (names = undefined))
    return abortable(known, signal)
  }

  /** The servers of a policy: the requested ones, and other addresses of these that starts and pods have received. */
  async function allServers(kind: ContainerKind, servers: readonly Address[]): Promise<Address[]> {
    if (servers.length === 0) return []
    const present = (await listPods(cluster, labelsOf(scope, kind))).filter((pod) => !hasStopped(pod)).flatMap(serversOf)
    const starting = [...(sent.get(kind)?.values() ?? [])].map(({ server }) => server)
    const all = new Map([...servers, ...starting.toReversed(), ...present].map((server) => [keyOf(server), server]))
    return [...all.values()].slice(0, MAX_SERVERS)
  }

  async function put(kind: ContainerKind, asked: readonly Address[]): Promise<{ servers: readonly Address[]; at: number }> {
    const { openNetworks: open, closedNetworks } = containers
    const servers = await allServers(kind, asked)
    await putPolicy(policyOf(kind, servers, { scope, open, closed: closedNetworks, namespace, serviceNamespace }))
    return { servers, at: performance.now() }
  }

  async function putPolicy(body: V1NetworkPolicy): Promise<void> {
    const name = body.metadata!.name!
    try {
      await networking.createNamespacedNetworkPolicy({ namespace, body })
    } catch (error) {
      if (!hasStatus(error, 409)) throw failed('making a network policy', error)
      await networking.replaceNamespacedNetworkPolicy({ name, namespace, body }).catch((again: unknown) => {
        throw failed('changing a network policy', again)
      })
    }
  }

  return { close, resolvers }
}

const keyOf = ({ host, port }: Address): string => `${host} ${port}`
