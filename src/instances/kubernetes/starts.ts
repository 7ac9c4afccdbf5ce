// Starts pods, of instances and of trials: when one node does not start a pod, others are tried, and a caller learns within seconds why no node does.
import type { V1Pod } from '@kubernetes/client-node'
import type { Log } from '../../base/log.ts'
import { sleep } from '../../base/wait.ts'
import type { Address } from '../containers/engine.ts'
import { NoRoom } from '../driver.ts'
import { deletePod, failed, type Cluster } from './api.ts'
import { avoidedNodes, avoiding, NodesFailed, NotStarted, wasRefused } from './nodes.ts'
import { addressOf } from './pod.ts'
import type { Pods } from './pods.ts'

/**
 * How long a pod may wait for a node before its caller gets the answer that there is no room. An autoscaler has begun to make a node by then; the next call
 * finds it.
 */
const SCHEDULED_MS = 15_000
/** The same while nodes are avoided that could not start pods: the caller gets their reasons. */
const OTHERS_MS = 2_000
/** Most nodes that one start tries. */
const MAX_NODES = 3
/** Interval of queries for the events of a pod that does not run yet: only events report that its node cannot make its sandbox, its network or its volumes. */
const EVENTS_EVERY_MS = 5_000
/** Limit on the time until a container runs; an image of a gigabyte may have to be pulled first. */
const RUNS_MS = 110_000
/** Limit on the removal of a pod that its node has not begun. */
const FORCED_MS = 10_000

/** Reasons of events by which a kubelet reports that it could not start a pod. It tries again, but another node may start it at once. */
const TROUBLES = new Set(['FailedCreatePodSandBox', 'FailedCreatePodContainer', 'FailedMount', 'NetworkNotReady', 'FailedSync'])

/**
 * Makes a pod and resolves with its address when its container runs. On failure the pod may still be there. @throws NoRoom, NodesFailed, or why it does not run
 */
export type StartPod = (name: string, pod: V1Pod, signal: AbortSignal) => Promise<Address>

export function podStarts(cluster: Cluster, pods: Pods, log: Log): StartPod {
  const { core, namespace } = cluster
  const avoided = avoidedNodes()

  /**
   * Resolves with the pod's address when its container runs. @throws NoRoom when no node takes it within that time; NotStarted when its node cannot start it;
   * why it does not run
   */
  async function runs(name: string, uid: string, unscheduledMs: number, signal: AbortSignal): Promise<Address> {
    let unscheduledAt: number | undefined
    let node: string | undefined
    const stop = new AbortController()
    let timer: NodeJS.Timeout | undefined
    const limits = AbortSignal.any([signal, stop.signal, AbortSignal.timeout(RUNS_MS)])
    const events = async () => {
      for (;;) {
        await sleep(EVENTS_EVERY_MS, limits)
        const why = node === undefined ? undefined : await troubleOf(uid)
        if (why !== undefined) stop.abort(new NotStarted(node!, why))
      }
    }
    events().catch(() => {}) // ends by its signal
    try {
      return await pods.when(
        name,
        (standing, pod) => {
          node = pod?.spec?.nodeName
          if (standing.state === 'ended') throw pod && node !== undefined && wasRefused(pod) ? new NotStarted(node, standing.why) : new Error(standing.why)
          if (standing.state === 'unscheduled' && unscheduledAt === undefined) {
            unscheduledAt = performance.now()
            timer = setTimeout(() => stop.abort(new NoRoom(`no node of the cluster has room for another browser: ${standing.why}`)), unscheduledMs)
          }
          if (standing.state === 'waiting') clearTimeout(timer)
          return standing.state === 'running' ? addressOf(pod!) : undefined
        },
        limits,
      )
    } finally {
      clearTimeout(timer)
      stop.abort(new Error('the pod runs'))
    }
  }

  /** The problem that prevents a pod's node from starting it, according to its events; undefined when they do not say, or may not be read. */
  async function troubleOf(uid: string): Promise<string | undefined> {
    const fieldSelector = `involvedObject.uid=${uid},type=Warning`
    const { items } = await core.listNamespacedEvent({ namespace, fieldSelector, limit: 50 }).catch((err: unknown) => {
      log.debug({ err }, 'the events of a pod could not be read')
      return { items: [] }
    })
    const found = items.find(({ reason }) => reason !== undefined && TROUBLES.has(reason))
    return found && `${found.reason}: ${found.message}`
  }

  return async (name, pod, signal) => {
    const failures: NotStarted[] = []
    for (;;) {
      const known = avoided.now()
      const nodes = known.map(({ node }) => node)
      const body = structuredClone(pod)
      const affinity = avoiding(pod.spec!.affinity, nodes)
      if (affinity) body.spec!.affinity = affinity
      const { metadata } = await core.createNamespacedPod({ namespace, body }).catch((error: unknown) => {
        throw failed('making a pod', error)
      })
      pods.forget(name)
      try {
        return await runs(name, metadata!.uid!, known.length > 0 ? OTHERS_MS : SCHEDULED_MS, signal)
      } catch (error) {
        if (error instanceof NoRoom && known.length > 0) throw new NodesFailed(known, error.message)
        if (!(error instanceof NotStarted)) throw error
        log.warn({ pod: name, node: error.node, reason: error.message }, 'a node could not start a pod; others are tried, and it is left alone for a while')
        avoided.add(error)
        failures.push(error)
        await deletePod(cluster, name, 0) // nothing of it runs
        if (failures.length === MAX_NODES) throw new NodesFailed(failures)
        // The next pod has the same name: the watch's events of this one must not be taken for that one.
        await pods.when(name, (_, there) => there === undefined || undefined, AbortSignal.any([signal, AbortSignal.timeout(FORCED_MS)]))
      }
    }
  }
}
