// Removes everything of a scope from a cluster: pods first, because without its policies a session would reach the cluster's network.
import type { NetworkingV1Api } from '@kubernetes/client-node'
import { until } from '../../base/wait.ts'
import { LABELS } from '../containers/labels.ts'
import { deletePod, failed, hasStatus, listPods, type Cluster } from './api.ts'

/** Time for pods to end by themselves, and then by force. */
const ENDED_MS = 20_000
const FORCED_MS = 30_000
const LOOK_MS = 500

/** Returns the numbers of pods and policies. @throws when something is left */
export async function removeScope(cluster: Cluster, scope: string, signal: AbortSignal): Promise<{ pods: number; policies: number }> {
  const { namespace } = cluster
  const networking: Pick<NetworkingV1Api, 'listNamespacedNetworkPolicy' | 'deleteNamespacedNetworkPolicy'> = cluster.networking
  const left = () => listPods(cluster, { [LABELS.scope]: scope })
  const end = async (grace: number): Promise<number> => {
    const pods = await left()
    for (const { metadata } of pods) await deletePod(cluster, metadata!.name!, grace)
    return pods.length
  }
  const areGone = async () => (await left()).length === 0
  const pods = await end(1)
  await until('pods to end', ENDED_MS, areGone, { everyMs: LOOK_MS, signal }).catch(() => signal.throwIfAborted())
  await until('pods to be deleted', FORCED_MS, async () => (await end(0)) === 0, { everyMs: LOOK_MS, signal })
  try {
    const { items } = await networking.listNamespacedNetworkPolicy({ namespace, labelSelector: `${LABELS.scope}=${scope}` })
    for (const { metadata } of items)
      await networking.deleteNamespacedNetworkPolicy({ namespace, name: metadata!.name! }).catch((error: unknown) => {
        if (!hasStatus(error, 404)) throw error
      })
    return { pods, policies: items.length }
  } catch (error) {
    throw failed('removing network policies', error)
  }
}
