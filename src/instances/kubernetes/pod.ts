// An instance as a pod: restricted (Pod Security Standards), without a token, with its limits. It contains no secret.
import type { V1Container, V1Pod, V1Volume } from '@kubernetes/client-node'
import { isIP } from 'node:net'
import type { Config } from '../../base/config.ts'
import { HOST_ALIAS } from '../../base/own-addresses.ts'
import { PROGRAM_PORT, type Address, type ContainerPlan } from '../containers/engine.ts'
import type { Exit } from '../driver.ts'
import { LABELS, labelsOf, nameOf } from '../containers/labels.ts'
import { patched } from './patch.ts'
import { resolversLabel } from './policy.ts'

/** The only container of a pod. */
export const CONTAINER = 'instance'
const MIB = 1024 * 1024
const USER = 1000

/** Seconds until the instances of a node that does not answer are given up. Without this value, they keep their seats for the cluster's usual five minutes. */
const NODE_LOST_S = 60

export interface PodSettings {
  config: Pick<Config, 'kubernetes' | 'containers' | 'allowHostLoopback'>
  scope: string
  replica: string
}

/** A server that a pod may reach, at one of its addresses. */
export interface Server extends Address {
  /** Its name; absent when only its address is known. */
  name?: string
}

/** The pod of a plan. `servers` are those of {@link ContainerPlan.reaches}. */
export function podOf(plan: ContainerPlan, { config, scope, replica }: PodSettings, servers: readonly Server[] = [], resolvers: readonly string[] = []): V1Pod {
  const { folders, args, env, limits, kind, id, note } = plan
  const { kubernetes, allowHostLoopback } = config
  const ownHost = allowHostLoopback && kubernetes.hostAddress !== undefined ? [{ name: HOST_ALIAS, host: kubernetes.hostAddress }] : []
  const aliases = [...servers, ...ownHost].flatMap(({ name, host }) => (name === undefined ? [] : [{ ip: host, hostnames: [name] }]))
  return {
    metadata: {
      name: nameOf(kind, id),
      labels: {
        ...labelsOf(scope, kind, { [LABELS.id]: id, [LABELS.resolvers]: resolversLabel(resolvers) }),
        'app.kubernetes.io/name': 'cob',
        'app.kubernetes.io/component': kind,
      },
      // An autoscaler must not move a session to another node: the move would end it.
      annotations: {
        [LABELS.replica]: replica,
        [LABELS.note]: note,
        ...(servers.length > 0 && { [LABELS.servers]: servers.map(({ host, port }) => `${host} ${port}`).join() }),
        'cluster-autoscaler.kubernetes.io/safe-to-evict': 'false',
      },
    },
    spec: {
      ...shared(config),
      hostname: 'cob',
      ...(aliases.length > 0 && { hostAliases: aliases }),
      // The cluster's resolvers would reveal the names of its services to a session.
      ...(resolvers.length > 0 ? { dnsPolicy: 'None', dnsConfig: { nameservers: [...resolvers] } } : { dnsPolicy: 'Default' }),
      containers: [
        {
          ...container(config),
          args,
          env: Object.entries(env).map(([name, value]) => ({ name, value })),
          stdin: true,
          stdinOnce: true,
          ports: [{ name: 'program', containerPort: PROGRAM_PORT }],
          resources: {
            limits: {
              memory: String(limits.memoryBytes),
              ...(limits.cpuPercent > 0 && { cpu: `${limits.cpuPercent * 10}m` }),
            },
            requests: {
              memory: String(Math.min(limits.memoryBytes, kubernetes.requests.memoryMb * MIB)),
              cpu: `${Math.min(limits.cpuPercent || Infinity, kubernetes.requests.cpuPercent) * 10}m`,
            },
          },
          volumeMounts: folders.map(({ path }, index) => ({ name: `folder-${index}`, mountPath: path })),
        },
      ],
      volumes: folders.map(({ bytes }, index): V1Volume => ({ name: `folder-${index}`, emptyDir: { medium: 'Memory', sizeLimit: String(bytes) } })),
    },
  }
}

/** The fields that every pod has, including those of trials. */
export function shared({ kubernetes }: PodSettings['config']): Omit<NonNullable<V1Pod['spec']>, 'containers'> {
  const lost = (key: string) => ({ key, operator: 'Exists', effect: 'NoExecute', tolerationSeconds: NODE_LOST_S })
  const spec = {
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    restartPolicy: 'Never',
    terminationGracePeriodSeconds: 1,
    tolerations: [lost('node.kubernetes.io/not-ready'), lost('node.kubernetes.io/unreachable')],
    securityContext: {
      runAsNonRoot: true,
      runAsUser: USER,
      runAsGroup: USER,
      // The default profile has no user namespaces, which Chromium's sandbox uses (containers/seccomp.ts).
      seccompProfile: { type: 'Localhost', localhostProfile: kubernetes.seccomp },
    },
    ...(kubernetes.runtimeClass !== undefined && { runtimeClassName: kubernetes.runtimeClass }),
    ...(Object.keys(kubernetes.nodeSelector).length > 0 && { nodeSelector: kubernetes.nodeSelector }),
    ...(kubernetes.pullSecret !== undefined && { imagePullSecrets: [{ name: kubernetes.pullSecret }] }),
  }
  return patched(spec, kubernetes.podPatch)
}

export const container = ({ kubernetes }: PodSettings['config']): Pick<V1Container, 'name' | 'image' | 'imagePullPolicy' | 'securityContext'> => ({
  name: CONTAINER,
  image: kubernetes.image,
  imagePullPolicy: 'IfNotPresent',
  securityContext: { allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: { drop: ['ALL'] } },
})

/** The address of a pod's program; undefined before the pod has an address. */
export const addressOf = ({ status }: V1Pod): Address | undefined => (status?.podIP ? { host: status.podIP, port: PROGRAM_PORT } : undefined)

/** Whether its container has ended, or its node cannot start it. */
export const hasStopped = ({ status }: V1Pod): boolean =>
  status?.phase === 'Failed' ||
  status?.phase === 'Succeeded' ||
  (status?.containerStatuses?.some(({ name, state }) => name === CONTAINER && (state?.terminated || isHopeless(state?.waiting?.reason))) ?? false)

/** Reasons of waiting that do not pass with time: a missing image or profile. */
const HOPELESS = new Set([
  'ImagePullBackOff',
  'ErrImageNeverPull',
  'InvalidImageName',
  'CreateContainerConfigError',
  'CreateContainerError',
  'RunContainerError',
  'CrashLoopBackOff',
])
const isHopeless = (reason: string | undefined): boolean => reason !== undefined && HOPELESS.has(reason)

/** The state of a pod, as far as the start and the end of an instance depend on it. */
export type Standing =
  /** `doubt`: the cluster gets no answer of its node. The pod may still run, and be reachable. */
  | { state: 'running'; doubt?: string }
  | { state: 'waiting' }
  /** No node has room, or none matches. Another one may be added. */
  | { state: 'unscheduled'; why: string }
  | ({ state: 'ended'; why: string } & Omit<Exit, 'reason'>)

/** Reasons of a failed pod whose node is away or was shut down. Other reasons mean that others needed its place: Evicted, Preempting, OutOfcpu. */
const LOST_REASONS = new Set(['NodeLost', 'NodeShutdown', 'Shutdown', 'Terminated'])

const LOST = 'its node does not answer the cluster any more'

export function standingOf({ metadata, status }: V1Pod): Standing {
  const { state } = status?.containerStatuses?.find(({ name }) => name === CONTAINER) ?? {}
  const ended = (why: string, because: Omit<Exit, 'reason'> = {}): Standing => ({ state: 'ended', why, ...because })
  const said = (...texts: (string | undefined)[]) => texts.filter(Boolean).join(': ')
  // A kubelet reports why a pod is not ready. The cluster gives no reason when it does not hear from the node.
  const isLost = status?.conditions?.some(({ type, status: is, reason }) => type === 'Ready' && is === 'False' && !reason) ?? false
  // The pod's own reason: an eviction, a node without room for it, or a node that was shut down.
  if (status?.reason && status.phase === 'Failed')
    return ended(`its pod failed: ${said(status.reason, status.message)}`, { cause: LOST_REASONS.has(status.reason) ? 'node_lost' : 'evicted' })
  // The deletion comes before the end of its container, and is the reason for it.
  if (metadata?.deletionTimestamp)
    return isLost
      ? ended(LOST, { cause: 'node_lost' })
      : ended('its pod was deleted: its node is being drained, or somebody has deleted it', { cause: 'evicted' })
  if (state?.terminated) {
    const { reason, exitCode } = state.terminated
    return reason === 'OOMKilled' ? ended('the container had no memory left', { limit: 'memory' }) : ended(`the container ended with ${exitCode}`)
  }
  if (state?.waiting?.reason !== undefined && HOPELESS.has(state.waiting.reason))
    return ended(`the container does not start: ${said(state.waiting.reason, state.waiting.message)}`)
  if (state?.running) return { state: 'running', ...(isLost && { doubt: LOST }) }
  const scheduled = status?.conditions?.find(({ type }) => type === 'PodScheduled')
  if (scheduled?.status === 'False') return { state: 'unscheduled', why: said(scheduled.reason, scheduled.message) }
  return { state: 'waiting' }
}

/** The servers that a pod received at its start. */
export function serversOf({ metadata }: V1Pod): Address[] {
  const given = metadata?.annotations?.[LABELS.servers]?.split(',') ?? []
  return given.map((server) => server.split(' ')).flatMap(([host = '', port]) => (isIP(host) === 0 ? [] : [{ host, port: Number(port) }]))
}
