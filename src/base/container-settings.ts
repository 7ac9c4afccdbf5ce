// The settings of drivers that run instances as containers.
import { addressList } from './address-list.ts'
import { ConfigError, flag, integer, origin } from './setting.ts'

/** Fields of a pod's spec that an operator may set for instances: their nodes and their priority. */
const PATCHABLE = ['affinity', 'nodeSelector', 'priorityClassName', 'schedulerName', 'tolerations', 'topologySpreadConstraints'] as const
export type PodPatch = Partial<Record<(typeof PATCHABLE)[number], unknown>>

export function dockerSettings(env: NodeJS.ProcessEnv) {
  const [publish, ...more] = list(env, 'COB_DOCKER_PUBLISH')
  if (more.length > 0) throw new ConfigError('COB_DOCKER_PUBLISH', 'must be one address of the Docker host')
  return {
    image: env.COB_DOCKER_IMAGE || 'cob-instance',
    // When undefined, a network of this scope is made on first use.
    network: env.COB_DOCKER_NETWORK || undefined,
    // Such as `runsc`; when undefined, the daemon's default.
    runtime: env.COB_DOCKER_RUNTIME || undefined,
    // An address of the Docker host at which each instance's port is published; when undefined, instances are reached at their own addresses.
    publish,
  }
}

export function containerSettings(env: NodeJS.ProcessEnv) {
  return {
    // Without any, the engine's resolvers.
    resolvers: list(env, 'COB_CONTAINER_DNS'),
    // The API's address for the code of apps; when undefined, the engine's host and the port of the service.
    apiUrl: origin(env, 'COB_APPS_API_URL'),
    // Private networks that instances may reach, and public ones that they may not reach.
    openNetworks: list(env, 'COB_OPEN_NETWORKS', true),
    closedNetworks: list(env, 'COB_CLOSED_NETWORKS', true),
  }
}

/** Label keys and values (Kubernetes: Labels and Selectors), and a path without steps upwards. */
const LABEL_KEY = /^([a-z0-9.-]{1,253}\/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$/
const LABEL_VALUE = /^([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?$/
const NAME = /^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/
const PROFILE = /^[A-Za-z0-9_-][\w.-]*(\/[A-Za-z0-9_-][\w.-]*)*$/

export function kubernetesSettings(env: NodeJS.ProcessEnv) {
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
    // When undefined, the namespace of the service itself, or of the kubeconfig's context.
    namespace: named('COB_KUBERNETES_NAMESPACE'),
    image: env.COB_KUBERNETES_IMAGE || 'cob-instance',
    // For example `gvisor` or `kata`.
    runtimeClass: named('COB_KUBERNETES_RUNTIME_CLASS'),
    seccomp,
    nodeSelector: nodeSelector(env.COB_KUBERNETES_NODE_SELECTOR ?? ''),
    podPatch: podPatch(env.COB_KUBERNETES_POD_PATCH || '{}'),
    // The Secret that nodes use to pull the image.
    pullSecret: named('COB_KUBERNETES_PULL_SECRET'),
    // The resources that the scheduler reserves for an instance.
    requests: {
      memoryMb: integer(env, 'COB_KUBERNETES_MEMORY_REQUEST_MB', 512, 1, 1_000_000),
      cpuPercent: integer(env, 'COB_KUBERNETES_CPU_REQUEST_PERCENT', 10, 1, 100_000),
    },
    // The address that `host.cob.internal` names, where instances may reach it (COB_ALLOW_HOST_LOOPBACK).
    hostAddress,
    // Allows sessions although nothing enforces the cluster's network policies.
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

/** A part of a pod as JSON. The cluster itself validates the values at the start. */
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

/** Addresses, or also subnets, separated by commas. */
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
