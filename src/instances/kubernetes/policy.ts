// What instances may reach, as NetworkPolicy objects: the same walls as containers/walls.ts, enforced by the cluster's network, outside the instance.
import type { V1LabelSelector, V1NetworkPolicy, V1NetworkPolicyEgressRule, V1NetworkPolicyPeer } from '@kubernetes/client-node'
import { createHash } from 'node:crypto'
import { BlockList, isIPv4 } from 'node:net'
import { NEVER, TO_MANY } from '../../base/own-addresses.ts'
import { PROGRAM_PORT, type Address, type ContainerKind } from '../containers/engine.ts'
import { LABELS } from '../containers/labels.ts'
import { NEAR } from '../containers/walls.ts'

export interface PolicySettings {
  scope: string
  /** Ranges that are open although they are near, and that are closed although they are not (COB_OPEN_NETWORKS, COB_CLOSED_NETWORKS). */
  open: readonly string[]
  closed: readonly string[]
  /** Where instances are. */
  namespace: string
  /** Where the service runs, if that is in the cluster: then only its pods reach instances. */
  serviceNamespace: string | undefined
}

/** The cluster itself gives each namespace this label with its name (Kubernetes 1.21 and newer). Nobody can give it to another one. */
const NAMESPACE_NAME = 'kubernetes.io/metadata.name'

/** The pods of the service (charts/cob), in its own namespace only: everybody can give these labels to a pod elsewhere. */
const serviceIn = ({ namespace, serviceNamespace }: PolicySettings): V1NetworkPolicyPeer => ({
  ...(serviceNamespace !== namespace && { namespaceSelector: { matchLabels: { [NAMESPACE_NAME]: serviceNamespace! } } }),
  podSelector: { matchLabels: { 'app.kubernetes.io/name': 'cob', 'app.kubernetes.io/component': 'service' } },
})
const ALL = { 4: '0.0.0.0/0', 6: '::/0' } as const

/** The pod that has the policy of a kind, and tries whether that holds (enforced.ts); and the pod that it must not reach. */
export const triesOf = (kind: ContainerKind): string => `${kind}-trial`
export const TARGET = 'trial-target'

export const policyName = (scope: string, kind: ContainerKind): string => `cob-${scope}-${kind}`

/** The policy of a kind. `servers` are open besides: the API, for apps. */
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
    // Behind the address of a service in the cluster are pods, and most networks look at these.
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

/** The label of pods with these resolvers: what opens their port 53 goes by it, so replicas on nodes with other resolvers take nothing from each other's pods. */
export const resolversLabel = (resolvers: readonly string[]): string => createHash('sha256').update(resolvers.toSorted().join()).digest('hex').slice(0, 16)

/** Opens port 53 of their resolvers to the pods that have these. */
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

/** Lets everybody reach the pod that a trial must not reach: so it is known that only the policy of the other one keeps it from that. */
export const targetPolicyOf = (scope: string): V1NetworkPolicy => ({
  metadata: { name: `cob-${scope}-${TARGET}`, labels: { [LABELS.scope]: scope } },
  spec: { podSelector: { matchLabels: { [LABELS.scope]: scope, [LABELS.kind]: TARGET } }, policyTypes: ['Ingress'], ingress: [{}] },
})

/** In CIDR notation, also for a single address. */
const cidrOf = (range: string): string => (range.includes('/') ? range : `${range}/${isIPv4(range) ? 32 : 128}`)

/** Those ranges that are inside of another one, and smaller: what Kubernetes takes as an exception. */
const within = (cidr: string, ranges: readonly string[]): string[] =>
  [...new Set(ranges.map(cidrOf))].filter((range) => range !== cidr && isInside(range, [cidr]))

/** Whether a range is inside of one of `others`, or one of these. */
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
