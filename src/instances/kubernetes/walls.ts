// The network of instances is closed by policies of their scope, which this makes; it refuses a cluster that does not enforce them.
import { isDeepStrictEqual } from 'node:util'
import type { Log } from '../../base/log.ts'
import { abortable } from '../../base/wait.ts'
import type { Address, ContainerKind } from '../containers/engine.ts'
import { failed, hasStatus, type Cluster } from './api.ts'
import { assertEnforced } from './enforced.ts'
import type { PodSettings } from './pod.ts'
import type { Pods } from './pods.ts'
import { policyName, policyOf } from './policy.ts'

interface WallsSettings {
  cluster: Cluster
  config: PodSettings['config']
  scope: string
  pods: Pods
  log: Log
}

export interface Walls {
  /** Resolves when the network of a kind is closed to all but `servers`. That is done once, unless their addresses change. @throws when that does not work, or nothing enforces it */
  close(kind: ContainerKind, servers: readonly Address[], signal: AbortSignal): Promise<void>
}

export function makeWalls({ cluster, config, scope, pods, log }: WallsSettings): Walls {
  const { networking, namespace, isInCluster } = cluster
  const { kubernetes, containers } = config
  /** Which servers the policies leave open, by kind. */
  const closed = new Map<ContainerKind, Promise<readonly Address[]>>()
  let enforced: Promise<void> | undefined

  async function close(kind: ContainerKind, servers: readonly Address[], signal: AbortSignal): Promise<void> {
    for (;;) {
      const known = closed.get(kind) ?? put(kind, servers)
      if (!closed.has(kind)) {
        closed.set(kind, known)
        known.catch(() => closed.delete(kind))
      }
      if (isDeepStrictEqual(await abortable(known, signal), servers)) break
      if (closed.get(kind) === known) closed.delete(kind)
    }
    if (kubernetes.allowOpenNetwork) return
    if (kind === 'app') await close('browser', [], signal) // whose policy the trial needs
    enforced ??= assertEnforced({ cluster, config, scope, pods, log })
    enforced.catch(() => (enforced = undefined))
    await abortable(enforced, signal)
  }

  async function put(kind: ContainerKind, servers: readonly Address[]): Promise<readonly Address[]> {
    const { openNetworks: open, closedNetworks, resolvers } = containers
    const body = policyOf(kind, servers, { scope, open, closed: closedNetworks, resolvers, isInCluster })
    const name = policyName(scope, kind)
    try {
      await networking.createNamespacedNetworkPolicy({ namespace, body })
    } catch (error) {
      if (!hasStatus(error, 409)) throw failed('making a network policy', error)
      await networking.replaceNamespacedNetworkPolicy({ name, namespace, body }).catch((again: unknown) => {
        throw failed('changing a network policy', again)
      })
    }
    return servers
  }

  return { close }
}
