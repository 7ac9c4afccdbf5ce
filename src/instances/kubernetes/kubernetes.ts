// The engine of containers over Kubernetes: a container is a pod, owned by its labels. docs/decisions/0088-containers.md
import { ApiException, Attach } from '@kubernetes/client-node'
import { lookup } from 'node:dns/promises'
import { once } from 'node:events'
import { isIP } from 'node:net'
import { PassThrough } from 'node:stream'
import type { Config } from '../../base/config.ts'
import type { Log } from '../../base/log.ts'
import { newId } from '../../base/ids.ts'
import { HOST_ALIAS } from '../../base/own-addresses.ts'
import { ConfigError } from '../../base/setting.ts'
import { until, WaitTimeout, within } from '../../base/wait.ts'
import { printed, type Address, type Engine } from '../containers/engine.ts'
import { LABELS, labelsOf, nameOf } from '../containers/labels.ts'
import { NoRoom } from '../driver.ts'
import { CALL_MS, deletePod, failed, listPods, openCluster, readPod } from './api.ts'
import { lost } from './patch.ts'
import { addressOf, CONTAINER, hasStopped, podOf, standingOf, type PodSettings, type Server } from './pod.ts'
import { watchPods } from './pods.ts'
import { podStarts } from './starts.ts'
import { makeWalls } from './walls.ts'

/**
 * How long the node of a pod has to end it. An unreachable node cannot end it: then the pod is deleted by force, and the node ends its containers when it is
 * back.
 */
const ENDED_MS = 20_000
const FORCED_MS = 10_000
/**
 * A kubelet reports the end of a container after one to two seconds. A cluster notices a dead node after 40 to 55 s; a service gets no updates of it after
 * about ten.
 */
const NOTICES_MS = 60_000
const LOOKUP_MS = 5_000
/** Most addresses per name. */
const MAX_ADDRESSES = 16

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
  const startPod = podStarts(cluster, pods, log)
  const walls = makeWalls({ cluster, config, scope, startPod, log })
  const attach = new Attach(cluster.config)

  /** Sends a container its standard input, and closes it. */
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
      // The enforcement of policies is tested while the pod starts.
      const isClosed = walls.close(
        kind,
        servers.map(({ host, port }) => ({ host, port })),
        signal,
      )
      isClosed.catch(() => {}) // it is awaited below
      const name = nameOf(kind, id)
      const address = await startPod(name, podOf(plan, { config, scope, replica }, servers, resolvers), signal)
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
    noticesMs: NOTICES_MS,
    async said(kind, id) {
      const log = await core.readNamespacedPodLog({ namespace, name: nameOf(kind, id), container: CONTAINER, tailLines: 50, limitBytes: 64 * 1024 })
      return printed(String(log))
    },
    async remove(kind, id) {
      const name = nameOf(kind, id)
      if (!(await deletePod(cluster, name, 1))) return
      // After the end of its container, only the kubelet's cleanup remains. It takes seconds, and a caller with a full quota would wait for it.
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

  /** A name may have several addresses, and others at the next look-up. */
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

/**
 * Checks the operator's patch by a dry run: the cluster validates a pod with it and creates none. @throws ConfigError when the cluster refuses it, or drops an
 * unknown field
 */
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

/** Interval of the checks whether a pod is deleted. */
const LOOK_MS = 250
