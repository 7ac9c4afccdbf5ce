// The network access of instances, as NetworkPolicy objects: the same rules as in containers/walls.ts, enforced by the cluster's network, outside the instance.
import type { V1LabelSelector, V1NetworkPolicy, V1NetworkPolicyEgressRule, V1NetworkPolicyPeer } from '@kubernetes/client-node'
import { createHash } from 'node:crypto'
import { BlockList, isIPv4 } from 'node:net'
import { NEVER, TO_MANY } from '../../base/own-addresses.ts'
import { PROGRAM_PORT, type Address, type ContainerKind } from '../containers/engine.ts'
import { LABELS } from '../containers/labels.ts'
import { NEAR } from '../containers/walls.ts'

export interface PolicySettings {
  scope: string
  /** Near ranges that are open, and other ranges that are closed (COB_OPEN_NETWORKS, COB_CLOSED_NETWORKS). */
  open: readonly string[]
  closed: readonly string[]
  /** The namespace of instances. */
  namespace: string
  /** The namespace of the service, if it runs in the cluster: then only its pods reach instances. */
  serviceNamespace: string | undefined
}

/** The cluster itself gives each namespace this label with its name (Kubernetes 1.21 and newer). No other namespace can have it. */
const NAMESPACE_NAME = 'kubernetes.io/metadata.name'

/** The pods of the service (charts/cob), in its own namespace only: anybody can give these labels to a pod in another namespace. */
const serviceIn = ({ namespace, serviceNamespace }: PolicySettings): V1NetworkPolicyPeer => ({
  ...(serviceNamespace !== namespace && { namespaceSelector: { matchLabels: { [NAMESPACE_NAME]: serviceNamespace! } } }),
  podSelector: { matchLabels: { 'app.kubernetes.io/name': 'cob', 'app.kubernetes.io/component': 'service' } },
})
const ALL = { 4: '0.0.0.0/0', 6: '::/0' } as const

/** The labels of two pods of a trial (enforced.ts): the one that has the policy of a kind and tests it, and the one that it must not reach. */
export const triesOf = (kind: ContainerKind): string => `${kind}-trial`
export const TARGET = 'trial-target'

export const policyName = (scope: string, kind: ContainerKind): string => `cob-${scope}-${kind}`

/** The policy of a kind. `servers` are open in addition: the API, for apps. */
export function policyOf(kind: ContainerKind, servers: readonly Address[], settings: PolicySettings): V1NetworkPolicy {
  const { scope, open, closed, serviceNamespace } = settings
  const blocks = (cidrs: readonly string[], except: readonly string[]): V1NetworkPolicyPeer[] =>
    cidrs.map((cidr) => ({ ipBlock: { cidr, except: within(cidr, except) } }))
  const opened = open.map(cidrOf).filter((cidr) => !isInside(cidr, NEVER))
  const service = serviceNamespace === undefined ? undefined : serviceIn(settings)
  const egress: V1NetworkPolicyEgressRule[] = [
    { to: blocks(Object.values(ALL), [...NEAR, ...NEVER, ...TO_MANY, ...closed]) },
    ...(opened.length > 0 ? [{ to: blocks(opened, NEVER) }] : []),
    ...servers.map(({ host, port }) => ({ to: [{ ipBlock: { cidr: cidrOf(host) } }], ports: [{ protocol: 'TCP', port }] })),
    // A service's address in the cluster leads to pods, and most networks check the pods' addresses.
    ...(kind === 'app' && service ? [{ to: [service] }] : []),
  ]
  const podSelector: V1LabelSelector = {
    matchLabels: { [LABELS.scope]: scope },
    matchExpressions: [{ key: LABELS.kind, operator: 'In', values: [kind, triesOf(kind)] }],
  }
  return {
    metadata: { name: policyName(scope, kind), labels: { [LABELS.scope]: scope } },
    spec: {
      podSelector,
      policyTypes: ['Ingress', 'Egress'],
      ingress: [{ ports: [{ protocol: 'TCP', port: PROGRAM_PORT }], ...(service && { _from: [service] }) }],
      egress,
    },
  }
}

const NAMES = ['UDP', 'TCP'].map((protocol) => ({ protocol, port: 53 }))

/**
 * The label of pods with these resolvers. The policy that opens their port 53 selects by it, so replicas on nodes with other resolvers do not change each
 * other's pods.
 */
export const resolversLabel = (resolvers: readonly string[]): string => createHash('sha256').update(resolvers.toSorted().join()).digest('hex').slice(0, 16)

/** Opens port 53 of these resolvers to the pods that use them. */
export function namesPolicyOf(resolvers: readonly string[], scope: string): V1NetworkPolicy {
  const label = resolversLabel(resolvers)
  return {
    metadata: { name: `cob-${scope}-names-${label}`, labels: { [LABELS.scope]: scope } },
    spec: {
      podSelector: { matchLabels: { [LABELS.scope]: scope, [LABELS.resolvers]: label } },
      policyTypes: ['Egress'],
      egress: [{ ports: NAMES, to: resolvers.map((address) => ({ ipBlock: { cidr: cidrOf(address) } })) }],
    },
  }
}

/** Lets every pod reach the target of a trial: so only the tested policy can prevent it. */
export const targetPolicyOf = (scope: string): V1NetworkPolicy => ({
  metadata: { name: `cob-${scope}-${TARGET}`, labels: { [LABELS.scope]: scope } },
  spec: { podSelector: { matchLabels: { [LABELS.scope]: scope, [LABELS.kind]: TARGET } }, policyTypes: ['Ingress'], ingress: [{}] },
})

/** In CIDR notation, also for a single address. */
const cidrOf = (range: string): string => (range.includes('/') ? range : `${range}/${isIPv4(range) ? 32 : 128}`)

/** The ranges that lie inside of another one, and are smaller: Kubernetes accepts only these as exceptions. */
const within = (cidr: string, ranges: readonly string[]): string[] =>
  [...new Set(ranges.map(cidrOf))].filter((range) => range !== cidr && isInside(range, [cidr]))

/** Whether a range lies inside of one of `others`, or equals one. */
function isInside(range: string, others: readonly string[]): boolean {
  const [start, bits] = parts(range)
  const family = isIPv4(start) ? 'ipv4' : 'ipv6'
  return others.some((other) => {
    const [base, length] = parts(other)
    if (isIPv4(base) !== isIPv4(start) || length > bits) return false
    const list = new BlockList()
    list.addSubnet(base, length, family)
    return list.check(start, family)
  })
}

function parts(range: string): [address: string, bits: number] {
  const [address, bits] = cidrOf(range).split('/')
  return [address!, Number(bits)]
}
