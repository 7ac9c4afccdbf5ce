// The pods and policies that are made for a plan, and what is read in the state of a pod.
import type { V1Pod } from '@kubernetes/client-node'
import { expect, test } from 'vitest'
import { readConfig } from '../../base/config.ts'
import type { ContainerPlan } from '../containers/engine.ts'
import { hasStopped, podOf, serversOf, standingOf, type Server } from './pod.ts'
import { policyOf } from './policy.ts'

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
const podWith = (env: Record<string, string> = {}, servers: Server[] = []) =>
  podOf(plan, { config: readConfig({ HOME: '/home/someone', ...env }), scope: 'here', replica: 'r' }, servers)

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
      COB_CONTAINER_DNS: '10.0.0.2',
      COB_ALLOW_HOST_LOOPBACK: '1',
      COB_KUBERNETES_HOST_ADDRESS: '10.0.0.9',
    },
    [
      { name: 'api.example', host: '10.0.0.3', port: 80 },
      { name: 'api.example', host: 'fd00::3', port: 80 },
    ],
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
    // No more than the limit.
    containers: [{ resources: { requests: { memory: '1073741824' } } }],
  })
})

test('a pod tells which servers it may reach', () => {
  const servers = [
    { host: '10.0.0.3', port: 80 },
    { host: 'fd00::3', port: 8443 },
  ]
  expect([serversOf(podWith({}, servers)), serversOf(podWith())]).toEqual([servers, []])
})

const settings = { scope: 'here', open: [], closed: [], resolvers: [], isInCluster: false }

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

test('in a cluster only the service reaches instances, and apps reach the API', () => {
  const { spec } = policyOf('app', [{ host: '10.100.0.5', port: 8080 }], { ...settings, isInCluster: true, resolvers: ['10.0.0.2'] })
  expect(JSON.stringify(spec?.ingress)).toContain('"app.kubernetes.io/component":"service"')
  expect(spec?.egress?.slice(1)).toEqual([
    {
      ports: [
        { protocol: 'UDP', port: 53 },
        { protocol: 'TCP', port: 53 },
      ],
      to: [{ ipBlock: { cidr: '10.0.0.2/32' } }],
    },
    { to: [{ ipBlock: { cidr: '10.100.0.5/32' } }], ports: [{ protocol: 'TCP', port: 8080 }] },
    { to: [expect.objectContaining({ podSelector: expect.anything() })] },
  ])
})

const withState = (state: object, more: object = {}): V1Pod => ({ status: { containerStatuses: [{ name: 'instance', state }], ...more } }) as V1Pod

test.each<[string, V1Pod, object]>([
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
  [
    'is on a lost node',
    withState({ running: {} }, { conditions: [{ type: 'Ready', status: 'False', reason: 'NodeNotReady' }] }),
    { state: 'running', doubt: expect.stringContaining('node') },
  ],
  [
    'was on a node that is away',
    Object.assign(withState({ running: {} }, { conditions: [{ type: 'Ready', status: 'False', reason: 'NodeNotReady' }] }), {
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
})
