// The settings of drivers that run instances as containers.
import { addressList } from './address-list.ts'
import { ConfigError, flag, integer, origin } from './setting.ts'

export interface DockerSettings {
  /** The image of instances (script/image). */
  image: string
  /** The bridge network of instances; undefined: one of this scope, made when it is first needed. */
  network: string | undefined
  /** The runtime of containers, such as `runsc`; undefined: the daemon's default. */
  runtime: string | undefined
  /** An address of the Docker host at which each instance's port is published; undefined: instances are reached at their own addresses. */
  publish: string | undefined
}

/** Of all drivers that run instances as containers. */
export interface ContainerSettings {
  /** Resolvers of instances; without any, the engine's. */
  resolvers: string[]
  /** Where the code of apps reaches the API; undefined: at the engine's host, at the port where the service listens. */
  apiUrl: string | undefined
  /** Private networks that instances may reach. */
  openNetworks: string[]
  /** Networks that they may not reach although they are public. */
  closedNetworks: string[]
}

/** Fields of a pod's spec that an operator may set for instances: where they run, and before whom. */
const PATCHABLE = ['affinity', 'nodeSelector', 'priorityClassName', 'schedulerName', 'tolerations', 'topologySpreadConstraints'] as const
export type PodPatch = Partial<Record<(typeof PATCHABLE)[number], unknown>>

export interface KubernetesSettings {
  /** Where instances are made; undefined: the namespace of the service itself, or of the kubeconfig's context. */
  namespace: string | undefined
  image: string
  /** For example `gvisor` or `kata`. */
  runtimeClass: string | undefined
  /** The file of the seccomp profile, below the kubelet's folder of profiles. */
  seccomp: string
  nodeSelector: Record<string, string>
  podPatch: PodPatch
  /** The Secret by which nodes pull the image. */
  pullSecret: string | undefined
  /** What the scheduler keeps for an instance. */
  requests: { memoryMb: number; cpuPercent: number }
  /** The address that `host.cob.internal` names, where instances may reach it (COB_ALLOW_HOST_LOOPBACK). */
  hostAddress: string | undefined
  /** Sessions are made although nothing enforces the cluster's network policies. */
  allowOpenNetwork: boolean
}

export function dockerSettings(env: NodeJS.ProcessEnv): DockerSettings {
  const [publish, ...more] = list(env, 'COB_DOCKER_PUBLISH')
  if (more.length > 0) throw new ConfigError('COB_DOCKER_PUBLISH', 'must be one address of the Docker host')
  return {
    image: env.COB_DOCKER_IMAGE || 'cob-instance',
    network: env.COB_DOCKER_NETWORK || undefined,
    runtime: env.COB_DOCKER_RUNTIME || undefined,
    publish,
  }
}

export function containerSettings(env: NodeJS.ProcessEnv): ContainerSettings {
  return {
    resolvers: list(env, 'COB_CONTAINER_DNS'),
    apiUrl: origin(env, 'COB_APPS_API_URL'),
    openNetworks: list(env, 'COB_OPEN_NETWORKS', true),
    closedNetworks: list(env, 'COB_CLOSED_NETWORKS', true),
  }
}

/** Label keys and values (Kubernetes: Labels and Selectors), and a path without steps upwards. */
const LABEL_KEY = /^([a-z0-9.-]{1,253}\/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$/
const LABEL_VALUE = /^([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?$/
const NAME = /^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/
const PROFILE = /^[A-Za-z0-9_-][\w.-]*(\/[A-Za-z0-9_-][\w.-]*)*$/

export function kubernetesSettings(env: NodeJS.ProcessEnv): KubernetesSettings {
  const named = (variable: string): string | undefined => {
    const name = env[variable] || undefined
    if (name !== undefined && !NAME.test(name)) throw new ConfigError(variable, 'must be a name of Kubernetes: small letters, digits, dashes and dots')
    return name
  }
  const seccomp = env.COB_KUBERNETES_SECCOMP || 'cob/instance.json'
  if (!PROFILE.test(seccomp))
    throw new ConfigError('COB_KUBERNETES_SECCOMP', "must be a file below the kubelet's folder of seccomp profiles, such as cob/instance.json")
  const [hostAddress, ...more] = list(env, 'COB_KUBERNETES_HOST_ADDRESS')
  if (more.length > 0) throw new ConfigError('COB_KUBERNETES_HOST_ADDRESS', 'must be one address')
  return {
    namespace: named('COB_KUBERNETES_NAMESPACE'),
    image: env.COB_KUBERNETES_IMAGE || 'cob-instance',
    runtimeClass: named('COB_KUBERNETES_RUNTIME_CLASS'),
    seccomp,
    nodeSelector: nodeSelector(env.COB_KUBERNETES_NODE_SELECTOR ?? ''),
    podPatch: podPatch(env.COB_KUBERNETES_POD_PATCH || '{}'),
    pullSecret: named('COB_KUBERNETES_PULL_SECRET'),
    requests: {
      memoryMb: integer(env, 'COB_KUBERNETES_MEMORY_REQUEST_MB', 512, 1, 1_000_000),
      cpuPercent: integer(env, 'COB_KUBERNETES_CPU_REQUEST_PERCENT', 10, 1, 100_000),
    },
    hostAddress,
    allowOpenNetwork: flag(env, 'COB_KUBERNETES_ALLOW_OPEN_NETWORK'),
  }
}

function nodeSelector(text: string): Record<string, string> {
  const pairs = text.split(',').flatMap((pair) => pair.trim() || [])
  return Object.fromEntries(
    pairs.map((pair) => {
      const [key = '', value, ...rest] = pair.split('=')
      if (value === undefined || rest.length > 0 || !LABEL_KEY.test(key) || !LABEL_VALUE.test(value))
        throw new ConfigError('COB_KUBERNETES_NODE_SELECTOR', 'must be labels as key=value with commas between them')
      return [key, value]
    }),
  )
}

const LISTS: readonly string[] = ['tolerations', 'topologySpreadConstraints'] satisfies (keyof PodPatch)[]
const TEXTS: readonly string[] = ['priorityClassName', 'schedulerName'] satisfies (keyof PodPatch)[]

/** A part of a pod as JSON. The cluster itself says at the start whether it takes the values. */
function podPatch(text: string): PodPatch {
  const refuse = (what: string): never => {
    throw new ConfigError('COB_KUBERNETES_POD_PATCH', what)
  }
  let pod: unknown
  try {
    pod = JSON.parse(text)
  } catch (error) {
    refuse(`must be JSON: ${(error as Error).message}`)
  }
  const isMap = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null && !Array.isArray(value)
  if (!isMap(pod)) return refuse('must be a part of a pod, such as {"spec":{"tolerations":[…]}}')
  const { spec = {}, ...more } = pod
  const [other] = Object.keys(more)
  if (other !== undefined) refuse(`"${other}" cannot be patched: only fields of "spec" can`)
  if (!isMap(spec)) return refuse('"spec" must have fields')
  for (const [field, value] of Object.entries(spec)) {
    if (!(PATCHABLE as readonly string[]).includes(field)) refuse(`"spec.${field}" cannot be patched: only ${PATCHABLE.join(', ')} can`)
    const isRight = LISTS.includes(field) ? Array.isArray(value) && value.every(isMap) : TEXTS.includes(field) ? typeof value === 'string' : isMap(value)
    if (!isRight) refuse(`"spec.${field}" must be ${LISTS.includes(field) ? 'a list of objects' : TEXTS.includes(field) ? 'a text' : 'an object'}`)
  }
  return spec
}

/** Addresses, or also subnets, with commas between them. */
function list(env: NodeJS.ProcessEnv, name: string, subnets = false): string[] {
  const texts = (env[name] ?? '').split(',').flatMap((text) => text.trim() || [])
  try {
    addressList(texts)
    if (!subnets && texts.some((text) => text.includes('/'))) throw new Error('a subnet is no address')
    return texts
  } catch (error) {
    throw new ConfigError(name, `must be addresses${subnets ? ' or subnets' : ''} with commas between them: ${(error as Error).message}`)
  }
}
