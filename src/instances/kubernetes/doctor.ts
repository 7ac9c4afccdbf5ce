// The findings of `cob doctor` on a cluster: whether instances can be started there, and what isolates them. It starts a pod in the same way as an instance,
// because versions alone show less.
import { AuthorizationV1Api, VersionApi } from '@kubernetes/client-node'
import type { Check } from '../../base/check.ts'
import type { Config } from '../../base/config.ts'
import { silentLog } from '../../base/log.ts'
import { failed, hasStatus, openCluster, saidBy, type Cluster } from './api.ts'
import { OpenNetwork } from './enforced.ts'
import { checkPodPatch } from './kubernetes.ts'
import { watchPods } from './pods.ts'
import { policyName, TARGET } from './policy.ts'
import { podStarts } from './starts.ts'
import { makeWalls } from './walls.ts'

const TRIAL_MS = 120_000
/** The scope of objects that a check makes. */
const SCOPE = 'cobdoctor'
const KINDS = ['browser', 'app'] as const

/** The rights that the service needs in the namespace (charts/cob grants exactly these). */
const RIGHTS = [
  ...['create', 'get', 'list', 'watch', 'delete'].map((verb) => ({ verb, resource: 'pods' })),
  { verb: 'create', resource: 'pods', subresource: 'attach' },
  { verb: 'get', resource: 'pods', subresource: 'attach' },
  { verb: 'get', resource: 'pods', subresource: 'log' },
  { verb: 'list', resource: 'events' },
  ...['create', 'update', 'delete'].map((verb) => ({ verb, resource: 'networkpolicies', group: 'networking.k8s.io' })),
]

export async function kubernetesChecks(config: Config): Promise<Check[]> {
  const check = (name: string, problem: string | undefined, fatal = true): Check => ({ name, problem, fatal })
  let cluster: Cluster
  let lacking: string[]
  try {
    cluster = openCluster(config.kubernetes.namespace)
    await cluster.config.makeApiClient(VersionApi).getCode()
    lacking = await rightsLacking(cluster)
  } catch (error) {
    return [check('Kubernetes', `the cluster does not answer: ${saidBy(error)}`)]
  }
  const network = lacking.length === 0 ? await trial(cluster, config) : undefined
  const isOpen = network instanceof OpenNetwork
  const { containers, kubernetes } = config
  return [
    check('Kubernetes', undefined),
    check('rights', lacking.length === 0 ? undefined : `in the namespace ${cluster.namespace} this account may not: ${lacking.join(', ')}`),
    check('a pod', network && !isOpen ? network.message : lacking.length === 0 ? undefined : 'not tried, for want of rights'),
    check('network policies', isOpen ? network.message : undefined, !kubernetes.allowOpenNetwork),
    check('apps', containers.apiUrl === undefined ? 'the code of apps does not reach the API: set COB_APPS_API_URL to where pods reach it' : undefined, false),
    check('processes', "how many processes a pod may have is the kubelet's setting (podPidsLimit): set it, 4096 for example", false),
    check(
      'isolation',
      kubernetes.runtimeClass === undefined
        ? "pods share their node's kernel; each has no rights, a filter of system calls, Chromium's own sandbox, and a network closed to the cluster, private networks and other sessions. A RuntimeClass such as gVisor or Kata (COB_KUBERNETES_RUNTIME_CLASS) adds a wall"
        : undefined,
      false,
    ),
  ]
}

async function rightsLacking({ config, namespace }: Cluster): Promise<string[]> {
  const api = config.makeApiClient(AuthorizationV1Api)
  const answers = await Promise.all(
    RIGHTS.map((right) => api.createSelfSubjectAccessReview({ body: { spec: { resourceAttributes: { namespace, ...right } } } })),
  )
  return RIGHTS.flatMap(({ verb, ...what }, index) =>
    answers[index]!.status?.allowed ? [] : [`${verb} ${what.resource}${'subresource' in what ? `/${what.subresource}` : ''}`],
  )
}

/** Starts a pod and tries its network. Returns the problems. */
async function trial(cluster: Cluster, config: Config): Promise<Error | undefined> {
  await using pods = watchPods(cluster, SCOPE, silentLog)
  const settings = { ...config, kubernetes: { ...config.kubernetes, allowOpenNetwork: false } }
  try {
    await checkPodPatch({ config, scope: SCOPE, replica: '' }, silentLog)
    const walls = makeWalls({ cluster, config: settings, scope: SCOPE, startPod: podStarts(cluster, pods, silentLog), log: silentLog })
    const signal = AbortSignal.timeout(TRIAL_MS)
    await Promise.all(KINDS.map((kind) => walls.close(kind, [], signal)))
    return undefined
  } catch (error) {
    return error as Error
  } finally {
    const names = [...KINDS.map((kind) => policyName(SCOPE, kind)), `cob-${SCOPE}-${TARGET}`]
    for (const name of names)
      await cluster.networking.deleteNamespacedNetworkPolicy({ namespace: cluster.namespace, name }).catch((error: unknown) => {
        if (!hasStatus(error, 404)) process.stderr.write(`cob: ${failed('a network policy of this check is left', error).message}\n`)
      })
  }
}
