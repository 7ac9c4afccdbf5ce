// What instances may reach, as NetworkPolicy objects: the same walls as containers/walls.ts, enforced by the cluster's network, outside the instance.
import type { V1LabelSelector, V1NetworkPolicy, V1NetworkPolicyEgressRule, V1NetworkPolicyPeer } from '@kubernetes/client-node'
import { BlockList, isIPv4 } from 'node:net'
import { NEVER, TO_MANY } from '../../base/own-addresses.ts'
import { PROGRAM_PORT, type Address, type ContainerKind } from '../containers/engine.ts'
import { HELPER, LABELS } from '../containers/labels.ts'
import { NEAR } from '../containers/walls.ts'

export interface PolicySettings {
  scope: string
  /** Ranges that are open although they are near, and that are closed although they are not (COB_OPEN_NETWORKS, COB_CLOSED_NETWORKS). */
  open: readonly string[]
  closed: readonly string[]
  /** Resolvers; without any, port 53 of everything is open. */
  resolvers: readonly string[]
  /** Whether the service runs in the cluster: then only its pods reach instances. */
  isInCluster: boolean
}

/** The pods of the service (charts/cob). */
const SERVICE: V1NetworkPolicyPeer = {
  namespaceSelector: {},
  podSelector: { matchLabels: { 'app.kubernetes.io/name': 'cob', 'app.kubernetes.io/component': 'service' } },
}
const ALL = { 4: '0.0.0.0/0', 6: '::/0' } as const

export const policyName = (scope: string, kind: ContainerKind): string => `cob-${scope}-${kind}`

/** The policy of a kind. `servers` are open besides: the API, for apps. */
export function policyOf(kind: ContainerKind, servers: readonly Address[], settings: PolicySettings): V1NetworkPolicy {
  const { scope, open, closed, resolvers, isInCluster } = settings
  const blocks = (cidrs: readonly string[], except: readonly string[]): V1NetworkPolicyPeer[] =>
    cidrs.map((cidr) => ({ ipBlock: { cidr, except: within(cidr, except) } }))
  const names = { ports: ['UDP', 'TCP'].map((protocol) => ({ protocol, port: 53 })) }
  const opened = open.map(cidrOf).filter((cidr) => !isInside(cidr, NEVER))
  const egress: V1NetworkPolicyEgressRule[] = [
    { to: blocks(Object.values(ALL), [...NEAR, ...NEVER, ...TO_MANY, ...closed]) },
    ...(opened.length > 0 ? [{ to: blocks(opened, NEVER) }] : []),
    { ...names, ...(resolvers.length > 0 && { to: resolvers.map((address) => ({ ipBlock: { cidr: cidrOf(address) } })) }) },
    ...servers.map(({ host, port }) => ({ to: [{ ipBlock: { cidr: cidrOf(host) } }], ports: [{ protocol: 'TCP', port }] })),
    // Behind the address of a service in the cluster are pods, and most networks look at these.
    ...(kind === 'app' && isInCluster ? [{ to: [SERVICE] }] : []),
  ]
  // What tries whether policies are enforced (enforced.ts) has the one of browsers.
  const kinds = kind === 'browser' ? [kind, HELPER] : [kind]
  const podSelector: V1LabelSelector = {
    matchLabels: { [LABELS.scope]: scope },
    matchExpressions: [{ key: LABELS.kind, operator: 'In', values: kinds }],
  }
  return {
    metadata: { name: policyName(scope, kind), labels: { [LABELS.scope]: scope } },
    spec: {
      podSelector,
      policyTypes: ['Ingress', 'Egress'],
      ingress: [{ ports: [{ protocol: 'TCP', port: PROGRAM_PORT }], ...(isInCluster && { _from: [SERVICE] }) }],
      egress,
    },
  }
}

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
