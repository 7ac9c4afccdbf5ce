// The engine of containers over Kubernetes: a container is a pod, owned by its labels. docs/decisions/0088-containers.md
import { ApiException, Attach, type V1Pod } from '@kubernetes/client-node'
import { lookup } from 'node:dns/promises'
import { once } from 'node:events'
import { isIP } from 'node:net'
import { PassThrough } from 'node:stream'
import type { Config } from '../../base/config.ts'
import type { Log } from '../../base/log.ts'
import { newId } from '../../base/ids.ts'
import { HOST_ALIAS } from '../../base/own-addresses.ts'
import { ConfigError } from '../../base/setting.ts'
import { sleep, until, WaitTimeout, within } from '../../base/wait.ts'
import type { Address, Engine } from '../containers/engine.ts'
import { LABELS, labelsOf, nameOf } from '../containers/labels.ts'
import { NoRoom } from '../driver.ts'
import { CALL_MS, deletePod, failed, listPods, openCluster, readPod } from './api.ts'
import { avoidedNodes, avoiding, NodesFailed, NotStarted, wasRefused } from './nodes.ts'
import { lost } from './patch.ts'
import { addressOf, CONTAINER, hasStopped, podOf, standingOf, type PodSettings, type Server } from './pod.ts'
import { watchPods } from './pods.ts'
import { makeWalls } from './walls.ts'

/** How long a pod may wait for a node before its caller hears that there is no room. An autoscaler has begun to make a node by then; the next call finds it. */
const SCHEDULED_MS = 15_000
/** The same while nodes are left alone that could not start pods: the caller hears of them. */
const OTHERS_MS = 2_000
/** Most nodes that one start tries. */
const MAX_NODES = 3
/** How often the events of a pod that does not run yet are asked for: only they tell that its node cannot make its sandbox, its network or its volumes. */
const EVENTS_EVERY_MS = 5_000
/** Limit on all until a container runs; an image of a gigabyte may have to be fetched first. */
const RUNS_MS = 110_000
/** How long the node of a pod has to end it. A node that does not answer never does: then the pod is deleted by force, and the node ends what it finds when it is back. */
const ENDED_MS = 20_000
const FORCED_MS = 10_000
const LOOKUP_MS = 5_000
/** Most addresses of one name. */
const MAX_ADDRESSES = 16
/** Characters of a container's output that are kept for an error. */
const MAX_SAID = 2_000

interface EngineSettings {
  config: Pick<Config, 'kubernetes' | 'containers' | 'allowHostLoopback'>
  scope: string
  replica: string
  log: Log
}

/** Makes the engine. @throws when no cluster is known */
export function kubernetesEngine({ config, scope, replica, log }: EngineSettings): Engine {
  const { kubernetes } = config
  const cluster = openCluster(kubernetes.namespace)
  const { core, namespace } = cluster
  const pods = watchPods(cluster, scope, log)
  const walls = makeWalls({ cluster, config, scope, pods, log })
  const attach = new Attach(cluster.config)
  const avoided = avoidedNodes()
  /** Resolves with the pod's address when its container runs. @throws NoRoom when no node takes it for so long; NotStarted when its node cannot start it; why it does not run */
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

  /** What keeps a pod's node from starting it, as its events tell; undefined when they tell nothing, or may not be read. */
  async function troubleOf(uid: string): Promise<string | undefined> {
    const fieldSelector = `involvedObject.uid=${uid},type=Warning`
    const { items } = await core.listNamespacedEvent({ namespace, fieldSelector, limit: 50 }).catch((err: unknown) => {
      log.debug({ err }, 'the events of a pod could not be read')
      return { items: [] }
    })
    const found = items.find(({ reason }) => reason !== undefined && TROUBLES.has(reason))
    return found && `${found.reason}: ${found.message}`
  }

  /** Makes a pod and resolves with its address when its container runs. What one node does not start is tried on others. @throws NoRoom, NodesFailed */
  async function running(name: string, pod: V1Pod, signal: AbortSignal): Promise<Address> {
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
        // The next one has its name: what the watch tells of this one must not be taken for that.
        await pods.when(name, (_, there) => there === undefined || undefined, AbortSignal.any([signal, AbortSignal.timeout(FORCED_MS)]))
      }
    }
  }

  /** Gives a container its standard input, which ends then. */
  async function give(name: string, input: string, signal: AbortSignal): Promise<void> {
    const stdin = new PassThrough()
    const socket = await within(
      'the way to a container',
      CALL_MS,
      attach.attach(namespace, name, CONTAINER, null, null, stdin, false).catch((error: unknown) => {
        throw new Error(`the cluster did not pass the input of a container on: ${(error as Error).message}`)
      }),
      signal,
    )
    try {
      const ended = once(socket, 'close')
      stdin.end(input)
      await once(stdin, 'end')
      socket.close()
      await within('the input of a container', CALL_MS, ended, signal)
    } finally {
      socket.terminate()
    }
  }

  return {
    async start(plan, signal) {
      const { kind, id, reaches } = plan
      const servers = (await Promise.all(reaches.map((server) => resolved(server, signal)))).flat()
      const resolvers = await walls.resolvers(signal)
      // Whether policies are enforced is found out while the pod starts.
      const isClosed = walls.close(
        kind,
        servers.map(({ host, port }) => ({ host, port })),
        signal,
      )
      isClosed.catch(() => {}) // it is awaited below
      const name = nameOf(kind, id)
      const address = await running(name, podOf(plan, { config, scope, replica }, servers, resolvers), signal)
      if (kind === 'app') await isClosed
      await give(name, plan.input, signal)
      await isClosed
      return address
    },
    async found(kind) {
      const found = await listPods(cluster, labelsOf(scope, kind))
      return found.map(({ metadata }) => ({ id: metadata!.labels![LABELS.id]!, replica: metadata!.annotations?.[LABELS.replica] }))
    },
    async running(kind, id) {
      const pod = await readPod(cluster, nameOf(kind, id))
      const address = pod && addressOf(pod)
      return address && standingOf(pod).state === 'running' ? { note: pod.metadata?.annotations?.[LABELS.note] ?? '', address } : undefined
    },
    async whyEnded(kind, id) {
      const standing = await pods.look(nameOf(kind, id))
      if (standing.state === 'ended')
        return { reason: standing.why, ...(standing.limit && { limit: standing.limit }), ...(standing.cause && { cause: standing.cause }) }
      return standing.state === 'running' && standing.doubt !== undefined ? { reason: standing.doubt, cause: 'node_lost' } : undefined
    },
    async said(kind, id) {
      const log = await core.readNamespacedPodLog({ namespace, name: nameOf(kind, id), container: CONTAINER, tailLines: 50, limitBytes: 64 * 1024 })
      return String(log)
        .replace(/[^\t\n\x20-\x7e]+/g, ' ')
        .slice(-MAX_SAID)
    },
    async remove(kind, id) {
      const name = nameOf(kind, id)
      if (!(await deletePod(cluster, name, 1))) return
      // When its container has ended, what is left is the kubelet's cleaning, which takes seconds that a caller with a full quota would wait for.
      const hasEnded = async () => {
        const pod = await readPod(cluster, name)
        return pod === undefined || hasStopped(pod)
      }
      await until('a pod to end', ENDED_MS, hasEnded, { everyMs: LOOK_MS }).catch((err: unknown) => {
        if (!(err instanceof WaitTimeout)) throw err
        log.warn({ pod: name }, 'a node has not ended a pod in time; it is deleted by force, and the node ends it when it can')
      })
      if (await deletePod(cluster, name, 0))
        await until('a pod to be deleted', FORCED_MS, async () => (await readPod(cluster, name)) === undefined, { everyMs: LOOK_MS })
    },
    [Symbol.asyncDispose]: () => pods[Symbol.asyncDispose](),
  }

  /** A name may lead to several addresses, and to others at the next look-up. */
  async function resolved({ host, port }: Address, signal: AbortSignal): Promise<Server[]> {
    if (isIP(host) !== 0) return [{ host, port }]
    if (host !== HOST_ALIAS) {
      const found = await within(`the address of ${host}`, LOOKUP_MS, lookup(host, { all: true }), signal)
      return found.slice(0, MAX_ADDRESSES).map(({ address }) => ({ name: host, host: address, port }))
    }
    if (kubernetes.hostAddress === undefined) throw new Error('the code of apps cannot reach the API: COB_APPS_API_URL says where pods reach it')
    return [{ name: host, host: kubernetes.hostAddress, port }]
  }
}

/** Reasons of events with which a kubelet says that it could not begin a pod. It tries again, but another node may have nothing to try. */
const TROUBLES = new Set(['FailedCreatePodSandBox', 'FailedCreatePodContainer', 'FailedMount', 'NetworkNotReady', 'FailedSync'])

/** Has the cluster look at a pod with the operator's patch, and make none. @throws ConfigError when it does not take it, or does not know a field of it */
export async function checkPodPatch(settings: PodSettings, log: Log): Promise<void> {
  const { podPatch, namespace: wanted } = settings.config.kubernetes
  if (Object.keys(podPatch).length === 0) return
  const { core, namespace } = openCluster(wanted)
  const refuse = (why: string) => new ConfigError('COB_KUBERNETES_POD_PATCH', why)
  const limits = { memoryBytes: 2 ** 30, pids: 0, cpuPercent: 0 }
  const plan = { id: newId(), kind: 'browser' as const, args: [], env: {}, input: '', folders: [], limits, reaches: [], note: '' }
  try {
    const made = await core.createNamespacedPod({ namespace, body: podOf(plan, settings), dryRun: 'All', fieldValidation: 'Strict' })
    const unknown = lost(podPatch, made)
    if (unknown !== undefined) throw refuse(`the cluster does not know "${unknown}", or has changed it`)
  } catch (error) {
    if (error instanceof ConfigError) throw error
    const isRefused = error instanceof ApiException && error.code >= 400 && error.code < 500 && error.code !== 429
    if (isRefused && !(failed('', error) instanceof NoRoom)) throw refuse(`the cluster refuses pods with it: ${failed('a dry run', error).message}`)
    log.warn({ err: failed('a dry run', error) }, 'COB_KUBERNETES_POD_PATCH could not be checked')
  }
}

/** Between two looks whether a pod is gone. */
const LOOK_MS = 250
