// The pods and policies that are made for a plan, and the reading of a pod's state.
import type { V1NetworkPolicy, V1Pod } from '@kubernetes/client-node'
import { BlockList, isIPv4 } from 'node:net'
import { expect, test } from 'vitest'
import { readConfig } from '../../base/config.ts'
import type { ContainerPlan } from '../containers/engine.ts'
import { LABELS } from '../containers/labels.ts'
import { resolversIn } from './enforced.ts'
import { hasStopped, podOf, serversOf, standingOf, type Server } from './pod.ts'
import { namesPolicyOf, policyOf, targetPolicyOf } from './policy.ts'

const plan: ContainerPlan = {
  id: 'abc',
  kind: 'browser',
  args: ['browser'],
  env: { A: 'b' },
  input: 'CANARY',
  folders: [{ path: '/tmp', bytes: 1024, inodes: 10, mode: '1777' }],
  limits: { memoryBytes: 1024 * 1024 * 1024, pids: 100, cpuPercent: 150 },
  reaches: [],
  note: '{"sealed":"x"}',
}
const podWith = (env: Record<string, string> = {}, servers: Server[] = [], resolvers: string[] = []) =>
  podOf(plan, { config: readConfig({ HOME: '/home/someone', ...env }), scope: 'here', replica: 'r' }, servers, resolvers)

test('a pod has its limits and labels, no token, and nothing of its input', () => {
  const pod = podWith()
  expect(JSON.stringify(pod)).not.toContain('CANARY')
  expect(pod.metadata).toMatchObject({ name: 'cob-browser-abc', labels: { 'cob.scope': 'here', 'cob.kind': 'browser', 'cob.id': 'abc' } })
  expect(pod.spec).toMatchObject({
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    securityContext: { runAsNonRoot: true, seccompProfile: { type: 'Localhost', localhostProfile: 'cob/instance.json' } },
    volumes: [{ emptyDir: { medium: 'Memory', sizeLimit: '1024' } }],
    containers: [{ stdin: true, resources: { limits: { memory: '1073741824', cpu: '1500m' }, requests: { memory: '536870912', cpu: '100m' } } }],
  })
  expect(pod.spec).not.toHaveProperty('runtimeClassName')
})

test('settings of the cluster come into the pod', () => {
  const pod = podWith(
    {
      COB_KUBERNETES_RUNTIME_CLASS: 'gvisor',
      COB_KUBERNETES_NODE_SELECTOR: 'pool=browsers',
      COB_KUBERNETES_PULL_SECRET: 'registry',
      COB_KUBERNETES_MEMORY_REQUEST_MB: '4096',
      COB_ALLOW_HOST_LOOPBACK: '1',
      COB_KUBERNETES_HOST_ADDRESS: '10.0.0.9',
    },
    [
      { name: 'api.example', host: '10.0.0.3', port: 80 },
      { name: 'api.example', host: 'fd00::3', port: 80 },
    ],
    ['10.0.0.2'],
  )
  expect(pod.spec).toMatchObject({
    runtimeClassName: 'gvisor',
    nodeSelector: { pool: 'browsers' },
    imagePullSecrets: [{ name: 'registry' }],
    dnsPolicy: 'None',
    dnsConfig: { nameservers: ['10.0.0.2'] },
    hostAliases: [
      { ip: '10.0.0.3', hostnames: ['api.example'] },
      { ip: 'fd00::3', hostnames: ['api.example'] },
      { ip: '10.0.0.9', hostnames: ['host.cob.internal'] },
    ],
    // The request does not exceed the limit.
    containers: [{ resources: { requests: { memory: '1073741824' } } }],
  })
})

const settings = { scope: 'here', open: [], closed: [], namespace: 'sessions', serviceNamespace: undefined }

test('a pod tells which servers it may reach', () => {
  const servers = [
    { host: '10.0.0.3', port: 80 },
    { host: 'fd00::3', port: 8443 },
  ]
  expect([serversOf(podWith({}, servers)), serversOf(podWith())]).toEqual([servers, []])
})

test('a policy closes private, link-local and metadata addresses, and opens the port of the program only', () => {
  const { spec } = policyOf('browser', [], { ...settings, closed: ['198.51.100.0/24'] })
  expect(spec?.policyTypes).toEqual(['Ingress', 'Egress'])
  expect(spec?.ingress).toEqual([{ ports: [{ protocol: 'TCP', port: 2628 }] }])
  const [{ to }] = spec!.egress as [{ to: { ipBlock: { cidr: string; except: string[] } }[] }]
  expect(to.map(({ ipBlock }) => ipBlock.cidr)).toEqual(['0.0.0.0/0', '::/0'])
  expect(to[0]!.ipBlock.except).toEqual(expect.arrayContaining(['10.0.0.0/8', '169.254.0.0/16', '192.168.0.0/16', '100.100.100.200/32', '198.51.100.0/24']))
  expect(to[1]!.ipBlock.except).toEqual(expect.arrayContaining(['fc00::/7', 'fe80::/10']))
  expect(to[0]!.ipBlock.except.some((range) => range.includes(':'))).toBe(false)
})

test('what the operator opens is open but for metadata addresses, which no setting opens', () => {
  const rules = policyOf('browser', [], { ...settings, open: ['10.1.0.0/16', '100.64.0.0/10', '169.254.169.254', '10.2.0.3'] }).spec!.egress!
  expect(rules[1]!.to).toEqual([
    { ipBlock: { cidr: '10.1.0.0/16', except: [] } },
    { ipBlock: { cidr: '100.64.0.0/10', except: ['100.100.100.200/32'] } },
    { ipBlock: { cidr: '10.2.0.3/32', except: [] } },
  ])
})

test('in a cluster only pods of the service in its own namespace reach instances, and apps reach the API', () => {
  const { spec } = policyOf('app', [{ host: '10.100.0.5', port: 8080 }], { ...settings, serviceNamespace: 'cob' })
  const service = {
    namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'cob' } },
    podSelector: { matchLabels: { 'app.kubernetes.io/name': 'cob', 'app.kubernetes.io/component': 'service' } },
  }
  expect(spec?.ingress).toEqual([{ ports: [{ protocol: 'TCP', port: 2628 }], _from: [service] }])
  expect(spec?.egress?.slice(1)).toEqual([{ to: [{ ipBlock: { cidr: '10.100.0.5/32' } }], ports: [{ protocol: 'TCP', port: 8080 }] }, { to: [service] }])
  // In one namespace, whatever labels the namespace has.
  const { spec: same } = policyOf('browser', [], { ...settings, serviceNamespace: 'sessions' })
  expect(same?.ingress).toEqual([{ ports: [{ protocol: 'TCP', port: 2628 }], _from: [{ podSelector: service.podSelector }] }])
})

/** What pods with these labels may send to, by the rules of Kubernetes in a network that enforces policies: an address and a port. */
function lets(policies: V1NetworkPolicy[], labels: Record<string, string>, address: string, port: number): boolean {
  const family = isIPv4(address) ? 'ipv4' : 'ipv6'
  const inside = (cidr: string) => {
    const [base, bits] = cidr.split('/')
    const list = new BlockList()
    list.addSubnet(base!, Number(bits), isIPv4(base!) ? 'ipv4' : 'ipv6')
    return isIPv4(base!) === isIPv4(address) && list.check(address, family)
  }
  const selected = policies.filter(({ spec }) => {
    const { matchLabels = {}, matchExpressions = [] } = spec!.podSelector!
    return (
      Object.entries(matchLabels).every(([key, value]) => labels[key] === value) &&
      matchExpressions.every(({ key, operator, values }) => (operator === 'In' ? values!.includes(labels[key]!) : !(key in labels)))
    )
  })
  if (!selected.some(({ spec }) => spec!.policyTypes!.includes('Egress'))) return true
  return selected
    .flatMap(({ spec }) => spec!.egress ?? [])
    .some(
      ({ to, ports }) =>
        (ports === undefined || ports.some((one) => one.port === port)) &&
        (to === undefined || to.some(({ ipBlock }) => ipBlock !== undefined && inside(ipBlock.cidr) && !(ipBlock.except ?? []).some(inside))),
    )
}

test('port 53 of private and metadata addresses is open to those pods only that have a resolver there', () => {
  const policies = (['browser', 'app'] as const).map((kind) => policyOf(kind, [], settings))
  policies.push(namesPolicyOf(['10.0.0.2', 'fd00::2'], 'here'), namesPolicyOf(['169.254.169.253'], 'here'), targetPolicyOf('here'))
  const one = podWith({}, [], ['fd00::2', '10.0.0.2']).metadata!.labels!
  const other = podWith({}, [], ['169.254.169.253']).metadata!.labels!
  const none = podWith().metadata!.labels!
  const reached = (labels: Record<string, string>) =>
    ['10.0.0.2', 'fd00::2', '10.0.0.3', '169.254.169.253', '169.254.169.254', '100.100.100.200', '192.168.1.1'].filter((to) => lets(policies, labels, to, 53))
  expect([reached(one), reached(other), reached(none)]).toEqual([['10.0.0.2', 'fd00::2'], ['169.254.169.253'], []])
  expect([lets(policies, one, '10.0.0.2', 80), lets(policies, one, '198.51.100.1', 443)]).toEqual([false, true])
})

test('what tries the network has the policy of its kind', () => {
  for (const kind of ['browser', 'app'] as const) {
    const labels = { [LABELS.scope]: 'here', [LABELS.kind]: `${kind}-trial` }
    expect(lets([policyOf(kind, [], settings)], labels, '10.1.1.1', 2629)).toBe(false)
    expect(lets([policyOf(kind === 'app' ? 'browser' : 'app', [], settings)], labels, '10.1.1.1', 2629)).toBe(true)
  }
})

test('the resolvers of a node are those that a pod reaches', () => {
  expect(resolversIn('search x\nnameserver 127.0.0.53\nnameserver 10.0.0.2\nnameserver fe80::1%eth0\nnameserver nonsense\nnameserver fd00::2\n')).toEqual([
    '10.0.0.2',
    'fd00::2',
  ])
  expect(resolversIn('nameserver 10.0.0.1\nnameserver 10.0.0.2\nnameserver 10.0.0.3\nnameserver 10.0.0.4\n')).toHaveLength(3)
})

test('an operator says where pods run and before whom; what keeps them closed stays', () => {
  const spread = [{ maxSkew: 1, topologyKey: 'zone', whenUnsatisfiable: 'ScheduleAnyway' }]
  const patch = {
    tolerations: [
      { key: 'pool', operator: 'Exists' },
      { key: 'node.kubernetes.io/unreachable', operator: 'Exists', effect: 'NoExecute', tolerationSeconds: 300 },
    ],
    nodeSelector: { disk: 'fast' },
    affinity: { nodeAffinity: {} },
    priorityClassName: 'low',
    topologySpreadConstraints: spread,
  }
  const { spec } = podWith({ COB_KUBERNETES_POD_PATCH: JSON.stringify({ spec: patch }), COB_KUBERNETES_NODE_SELECTOR: 'pool=browsers' })
  expect(spec).toMatchObject({
    nodeSelector: { pool: 'browsers', disk: 'fast' },
    affinity: { nodeAffinity: {} },
    priorityClassName: 'low',
    topologySpreadConstraints: spread,
    securityContext: { runAsNonRoot: true },
  })
  expect(spec!.tolerations!.map(({ key, tolerationSeconds }) => [key, tolerationSeconds])).toEqual([
    ['node.kubernetes.io/not-ready', 60],
    ['pool', undefined],
    ['node.kubernetes.io/unreachable', 300],
  ])
})

const withState = (state: object, more: object = {}): V1Pod => ({ status: { containerStatuses: [{ name: 'instance', state }], ...more } }) as V1Pod

/** As kube-controller-manager leaves them. */
const LOST_NODE = {
  conditions: [
    { type: 'Ready', status: 'False' },
    { type: 'ContainersReady', status: 'True' },
  ],
}

test.each<[string, V1Pod, object]>([
  ['is not ready yet', withState({ running: {} }, { conditions: [{ type: 'Ready', status: 'False', reason: 'ContainersNotReady' }] }), { state: 'running' }],
  ['runs', withState({ running: {} }), { state: 'running' }],
  ['has not begun', withState({ waiting: { reason: 'ContainerCreating' } }), { state: 'waiting' }],
  ['waits for its image', withState({ waiting: { reason: 'ErrImagePull' } }), { state: 'waiting' }],
  [
    'gets no image',
    withState({ waiting: { reason: 'ImagePullBackOff', message: 'no such image' } }),
    { state: 'ended', why: expect.stringContaining('no such image') },
  ],
  [
    'had no memory left',
    withState({ terminated: { reason: 'OOMKilled', exitCode: 137 } }),
    { state: 'ended', why: 'the container had no memory left', limit: 'memory' },
  ],
  ['ended', withState({ terminated: { reason: 'Error', exitCode: 3 } }), { state: 'ended', why: 'the container ended with 3' }],
  [
    'was evicted',
    withState({}, { phase: 'Failed', reason: 'Evicted', message: 'disk pressure' }),
    { state: 'ended', why: 'its pod failed: Evicted: disk pressure', cause: 'evicted' },
  ],
  [
    'is deleted',
    Object.assign(withState({ running: {} }), { metadata: { deletionTimestamp: new Date() } }),
    { state: 'ended', why: expect.stringContaining('drained'), cause: 'evicted' },
  ],
  ['is on a lost node', withState({ running: {} }, LOST_NODE), { state: 'running', doubt: expect.stringContaining('node') }],
  [
    'was on a node that is away',
    Object.assign(withState({ running: {} }, LOST_NODE), {
      metadata: { deletionTimestamp: new Date() },
    }),
    { state: 'ended', why: expect.stringContaining('node'), cause: 'node_lost' },
  ],
  [
    'was on a node that was shut down',
    withState({}, { phase: 'Failed', reason: 'Terminated', message: 'in response to imminent node shutdown' }),
    { state: 'ended', why: expect.stringContaining('shutdown'), cause: 'node_lost' },
  ],
  [
    'finds no node',
    { status: { conditions: [{ type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message: '0/2 nodes' }] } } as V1Pod,
    { state: 'unscheduled', why: 'Unschedulable: 0/2 nodes' },
  ],
])('a pod that %s is known as that', (_, pod, standing) => {
  expect(standingOf(pod)).toEqual(standing)
})

test('a container has stopped when it has ended, not before it has begun', () => {
  expect(hasStopped(withState({ terminated: { exitCode: 0 } }))).toBe(true)
  expect(hasStopped(withState({ running: {} }))).toBe(false)
  expect(hasStopped(withState({ waiting: { reason: 'ContainerCreating' } }))).toBe(false)
  // Its node cannot start it: there is nothing to wait for.
  expect(hasStopped(withState({ waiting: { reason: 'CreateContainerError' } }))).toBe(true)
})
