// The cluster's API by the official client: the choice of the cluster, limits on calls, and the meaning of its errors.
import {
  ApiException,
  CoreV1Api,
  createConfiguration,
  KubeConfig,
  NetworkingV1Api,
  ServerConfiguration,
  type RequestContext,
  type ResponseContext,
  type V1Pod,
} from '@kubernetes/client-node'
import { existsSync, readFileSync } from 'node:fs'
import { NoRoom } from '../driver.ts'

/** Limit on one call. Most take milliseconds. */
export const CALL_MS = 20_000

/** The file in which a pod finds its own namespace (Kubernetes: Accessing the API from a Pod). */
const OWN_NAMESPACE = '/var/run/secrets/kubernetes.io/serviceaccount/namespace'

export interface Cluster {
  config: KubeConfig
  core: CoreV1Api
  networking: NetworkingV1Api
  namespace: string
  /** The namespace of this process, when it runs in a pod of the cluster. */
  serviceNamespace: string | undefined
}

/** The cluster of KUBECONFIG, of ~/.kube/config, or the one that this process runs in. */
export function openCluster(namespace: string | undefined): Cluster {
  const config = new KubeConfig()
  config.loadFromDefault()
  const server = config.getCurrentCluster()?.server
  if (server === undefined) throw new Error('no cluster of Kubernetes is known: set KUBECONFIG, or run in one')
  const limit = {
    pre: async (context: RequestContext) => (context.setSignal(AbortSignal.timeout(CALL_MS)), context),
    post: async (context: ResponseContext) => context,
  }
  const calls = createConfiguration({ baseServer: new ServerConfiguration(server, {}), authMethods: { default: config }, promiseMiddleware: [limit] })
  const isInCluster = process.env.KUBERNETES_SERVICE_HOST !== undefined && existsSync(OWN_NAMESPACE)
  const own = isInCluster ? readFileSync(OWN_NAMESPACE, 'utf8').trim() : config.getContextObject(config.getCurrentContext())?.namespace
  return {
    config,
    core: new CoreV1Api(calls),
    networking: new NetworkingV1Api(calls),
    namespace: namespace ?? own ?? 'default',
    serviceNamespace: isInCluster ? own : undefined,
  }
}

/** Whether an error of the API has this HTTP status. */
export const hasStatus = (error: unknown, status: number): boolean => error instanceof ApiException && error.code === status

/** The message in an API error. The client's own error contains the whole answer with all headers. */
export function saidBy(error: unknown): string {
  if (!(error instanceof ApiException)) return (error as Error).message
  const body = error.body as { message?: unknown } | string | undefined
  const text = typeof body === 'string' ? messageIn(body) : body?.message
  return typeof text === 'string' && text !== '' ? text : `the API answered ${error.code}`
}

function messageIn(body: string): unknown {
  try {
    return (JSON.parse(body) as { message?: unknown }).message
  } catch {
    return body.slice(0, 500)
  }
}

/** A short error for a failed call. An exhausted quota is reported to the caller as such. */
export function failed(what: string, error: unknown): Error {
  const said = saidBy(error)
  if (hasStatus(error, 403) && said.includes('exceeded quota')) return new NoRoom(`the quota of the cluster's namespace is used up: ${said}`, { cause: error })
  return new Error(`${what}: ${said}`, { cause: error instanceof ApiException ? undefined : error })
}

/** A pod as the API has it; undefined when there is none. @throws when the cluster does not answer */
export async function readPod({ core, namespace }: Cluster, name: string): Promise<V1Pod | undefined> {
  try {
    return await core.readNamespacedPod({ namespace, name })
  } catch (error) {
    if (hasStatus(error, 404)) return undefined
    throw failed('asking for a pod', error)
  }
}

/**
 * Deletes a pod, with a grace period of this many seconds; with 0, it is deleted at once. False when there is none. @throws when the cluster does not answer
 */
export async function deletePod({ core, namespace }: Cluster, name: string, gracePeriodSeconds: number): Promise<boolean> {
  try {
    await core.deleteNamespacedPod({ namespace, name, gracePeriodSeconds })
    return true
  } catch (error) {
    if (hasStatus(error, 404)) return false
    throw failed('deleting a pod', error)
  }
}

/** All pods with these labels. @throws when the cluster does not answer */
export async function listPods({ core, namespace }: Cluster, labels: Record<string, string>): Promise<V1Pod[]> {
  const labelSelector = Object.entries(labels)
    .map((pair) => pair.join('='))
    .join(',')
  try {
    return (await core.listNamespacedPod({ namespace, labelSelector })).items
  } catch (error) {
    throw failed('listing pods', error)
  }
}
