// Nodes that cannot start pods, over a fake cluster of scripted answers: other nodes are tried, and the caller receives the reason.
import { CoreV1Api, KubeConfig, type V1Pod } from '@kubernetes/client-node'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createTcpServer, type AddressInfo } from 'node:net'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { readConfig } from '../../base/config.ts'
import { silentLog } from '../../base/log.ts'
import { sleep } from '../../base/wait.ts'
import { Unavailable } from '../../base/unavailable.ts'
import { PROGRAM_PORT } from '../containers/engine.ts'
import { NoRoom } from '../driver.ts'
import { checkPodPatch, kubernetesEngine } from './kubernetes.ts'
import { avoidedNodes, avoiding, NotStarted, wasRefused } from './nodes.ts'

const LIMIT_MS = 30_000
const plan = {
  id: 'abc',
  kind: 'browser' as const,
  args: [],
  env: {},
  input: '',
  folders: [],
  limits: { memoryBytes: 2 ** 30, pids: 0, cpuPercent: 0 },
  reaches: [],
  note: '',
}

interface Answers {
  /** Nodes in the order of the scheduler's choice. */
  nodes: string[]
  /** The state of a pod's container on a node; or an event of the pod instead. */
  onNode(node: string): { status?: V1Pod['status']; event?: { reason: string; message: string } }
  /** The answer to a dry run. */
  dryRun?: (pod: V1Pod) => [status: number, body: object]
}

/** An API server with one watch, which schedules pods by their affinity to names of nodes. */
async function cluster({ nodes, onNode, dryRun }: Answers, env: Record<string, string> = {}) {
  let watch: ServerResponse | undefined
  let uid = 0
  const pods = new Map<string, V1Pod>()
  const events: { involvedObject: { uid: string }; type: string; reason: string; message: string }[] = []
  const tried: (string | undefined)[] = []
  const tell = (type: string, object: V1Pod) => void watch?.write(`${JSON.stringify({ type, object })}\n`)
  const read = async (request: IncomingMessage) => JSON.parse((await request.toArray()).join('') || '{}') as V1Pod
  const server = createServer((request, response) => {
    void (async () => {
      const { pathname, searchParams } = new URL(request.url!, 'http://x')
      const name = pathname.split('/')[6]
      const answer = (status: number, body: object) => void response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
      if (pathname.endsWith('/events')) {
        const of = searchParams.get('fieldSelector')!
        return answer(200, { items: events.filter(({ involvedObject }) => of.includes(involvedObject.uid)) })
      }
      if (!pathname.includes('/pods')) return answer(200, {})
      if (searchParams.has('watch')) {
        watch = response.writeHead(200, { 'content-type': 'application/json' })
        return watch.flushHeaders()
      }
      if (request.method === 'GET' && name === undefined)
        return answer(200, { kind: 'PodList', apiVersion: 'v1', metadata: { resourceVersion: '1' }, items: [...pods.values()] })
      if (request.method === 'GET') return pods.has(name!) ? answer(200, pods.get(name!)!) : answer(404, {})
      if (request.method === 'DELETE') {
        const pod = pods.get(name!)
        if (!pod) return answer(404, {})
        pods.delete(name!)
        tell('DELETED', pod)
        return answer(200, pod)
      }
      const made = await read(request)
      if (searchParams.get('dryRun') === 'All') return answer(...(dryRun ?? ((pod: V1Pod): [number, object] => [201, pod]))(made))
      const avoided = JSON.stringify(made.spec!.affinity ?? {})
      const node = nodes.find((one) => !avoided.includes(`"${one}"`))
      tried.push(node)
      const pod = structuredClone(made)
      Object.assign(pod.metadata!, { namespace: 'here', uid: `uid-${++uid}` })
      pods.set(pod.metadata!.name!, pod)
      answer(201, pod)
      tell('ADDED', pod)
      const { status, event } = node === undefined ? { status: NO_NODE } : onNode(node)
      if (event) events.push({ involvedObject: { uid: pod.metadata!.uid! }, type: 'Warning', ...event })
      const later = structuredClone(pod)
      if (node !== undefined) later.spec!.nodeName = node
      if (status) later.status = status
      pods.set(pod.metadata!.name!, later)
      tell('MODIFIED', later)
    })()
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const dir = mkdtempSync(join(tmpdir(), 'cob-nodes-'))
  const before = process.env.KUBECONFIG
  process.env.KUBECONFIG = join(dir, 'config')
  const config = new KubeConfig()
  config.loadFromClusterAndUser({ name: 'c', skipTLSVerify: true, server: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }, { name: 'u' })
  writeFileSync(process.env.KUBECONFIG, config.exportConfig())
  onTestFinished(() => {
    if (before === undefined) delete process.env.KUBECONFIG
    else process.env.KUBECONFIG = before
    rmSync(dir, { recursive: true })
    server.closeAllConnections()
    server.close()
  })
  expect(config.makeApiClient(CoreV1Api)).toBeDefined()
  const settings = (more: Record<string, string> = {}) => ({
    config: readConfig({
      HOME: '/home/someone',
      COB_KUBERNETES_NAMESPACE: 'here',
      COB_KUBERNETES_ALLOW_OPEN_NETWORK: '1',
      COB_CONTAINER_DNS: '10.0.0.2',
      ...env,
      ...more,
    }),
    scope: 's',
    replica: 'r',
  })
  const engine = kubernetesEngine({ ...settings(), log: silentLog })
  onTestFinished(() => engine[Symbol.asyncDispose]())
  while (watch === undefined) await sleep(5)
  return { engine, tried, pods, settings, start: (id = 'abc') => engine.start({ ...plan, id }, AbortSignal.timeout(LIMIT_MS)) }
}
const NO_NODE: V1Pod['status'] = { conditions: [{ type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message: '0/2 nodes are available' }] }
const waits = (reason: string, message: string) => ({
  status: { containerStatuses: [{ name: 'instance', state: { waiting: { reason, message } } }] } as V1Pod['status'],
})
const runsAt = (podIP: string) => ({ status: { podIP, containerStatuses: [{ name: 'instance', state: { running: {} } }] } as V1Pod['status'] })
const runs = runsAt('10.9.9.9')
const NO_PROFILE = waits('CreateContainerError', 'cannot load seccomp profile')

test('what a node cannot start is started on another one, and later starts leave that node alone', async () => {
  const { start, tried, pods } = await cluster({ nodes: ['new', 'old'], onNode: (node) => (node === 'new' ? NO_PROFILE : runs) })
  // Its input is sent by a WebSocket, which this cluster does not have: the pod runs by then.
  await expect(start()).rejects.toThrow('did not pass the input')
  await expect(start('def')).rejects.toThrow('did not pass the input')
  expect(tried).toEqual(['new', 'old', 'old'])
  expect([...pods.values()].map(({ spec }) => spec!.nodeName)).toEqual(['old', 'old'])
})

test('when no node can, the start fails within seconds as something that passes, with the reason', async () => {
  const { start, tried } = await cluster({ nodes: ['one', 'two'], onNode: () => NO_PROFILE })
  const failure = await start().catch((error: unknown) => error as Error)
  expect(failure).toBeInstanceOf(Unavailable)
  expect(failure).not.toBeInstanceOf(NoRoom)
  expect((failure as Error).message).toMatch(
    /2 nodes of the cluster could not start a pod: .*CreateContainerError: cannot load seccomp profile; and no node .*0\/2 nodes/,
  )
  expect(tried).toEqual(['one', 'two', undefined])
})

test('a start tries at most three nodes', async () => {
  const { start, tried, pods } = await cluster({ nodes: ['1', '2', '3', '4'], onNode: () => waits('ErrImageNeverPull', 'no image') })
  await expect(start()).rejects.toThrow(/3 nodes of the cluster could not start a pod: .*no image/)
  expect(tried).toEqual(['1', '2', '3'])
  expect(pods.size).toBe(0)
})

test('a node that cannot make the sandbox of a pod says so by an event only', async () => {
  const { start, tried } = await cluster({
    nodes: ['new', 'old'],
    onNode: (node) => (node === 'new' ? { event: { reason: 'FailedCreatePodSandBox', message: 'no network' } } : runs),
  })
  await expect(start()).rejects.toThrow('did not pass the input')
  expect(tried).toEqual(['new', 'old'])
})

describe('the pod that is asked for the resolvers of the nodes', () => {
  const ASKED = '127.77.4.1'
  const onNode = (node: string) => (node === 'new' ? NO_PROFILE : runsAt(ASKED))

  test('is started on another node, too, which sessions then leave alone', async () => {
    const server = createTcpServer((socket) => void socket.once('data', () => socket.end('nameserver 10.0.0.2\n')).on('error', () => {}))
    await once(server.listen(PROGRAM_PORT, ASKED), 'listening')
    onTestFinished(() => void server.close())
    const { start, tried, pods } = await cluster({ nodes: ['new', 'old'], onNode }, { COB_CONTAINER_DNS: '' })
    await expect(start()).rejects.toThrow('did not pass the input')
    expect(tried).toEqual(['new', 'old', 'old'])
    expect([...pods.values()].map(({ metadata, spec }) => [metadata!.labels!['cob.kind'], spec!.dnsConfig?.nameservers])).toEqual([['browser', ['10.0.0.2']]])
  })

  test('and when no node starts it, the caller hears that within seconds, and nothing is left', async () => {
    const { start, pods } = await cluster({ nodes: ['new'], onNode }, { COB_CONTAINER_DNS: '' })
    await expect(start()).rejects.toThrow(/a node of the cluster could not start a pod: .*cannot load seccomp profile; and no node .*0\/2 nodes/)
    expect(pods.size).toBe(0)
  })
})

test('a pod that has run, or that somebody has deleted, is not begun again', () => {
  const pod = (state: object, metadata: object = {}) =>
    ({ metadata, spec: { nodeName: 'n' }, status: { phase: 'Failed', containerStatuses: [{ name: 'instance', state }] } }) as unknown as V1Pod
  expect(wasRefused(pod({ terminated: { exitCode: 1 } }))).toBe(false)
  expect(wasRefused(pod({ running: {} }))).toBe(false)
  expect(wasRefused(pod({ waiting: {} }, { deletionTimestamp: new Date() }))).toBe(false)
  expect(wasRefused(pod({ waiting: { reason: 'CreateContainerError' } }))).toBe(true)
})

test('a node is left alone for a while only; at most sixteen are', async () => {
  const avoided = avoidedNodes(40)
  for (let node = 1; node <= 20; node++) avoided.add(new NotStarted(`n${node}`, 'why'))
  expect(avoided.now().map(({ node }) => node)).toEqual(Array.from({ length: 16 }, (_, index) => `n${index + 5}`))
  await sleep(60)
  expect(avoided.now()).toEqual([])
})

test("nodes are left alone in each of the operator's terms, which stay", () => {
  const zone = { key: 'zone', operator: 'In', values: ['a'] }
  const preferred = [{ weight: 1, preference: { matchExpressions: [zone] } }]
  const affinity = {
    podAntiAffinity: {},
    nodeAffinity: {
      preferredDuringSchedulingIgnoredDuringExecution: preferred,
      requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [{ matchExpressions: [zone] }, { matchFields: [zone] }] },
    },
  }
  const not = (node: string) => ({ key: 'metadata.name', operator: 'NotIn', values: [node] })
  expect(avoiding(affinity, ['x', 'y'])).toEqual({
    podAntiAffinity: {},
    nodeAffinity: {
      preferredDuringSchedulingIgnoredDuringExecution: preferred,
      requiredDuringSchedulingIgnoredDuringExecution: {
        nodeSelectorTerms: [{ matchExpressions: [zone], matchFields: [not('x'), not('y')] }, { matchFields: [zone, not('x'), not('y')] }],
      },
    },
  })
  expect(avoiding(affinity, [])).toBe(affinity)
})

const PATCH = { COB_KUBERNETES_POD_PATCH: '{"spec":{"tolerations":[{"key":"pool","operator":"Exists"}],"priorityClassName":"low"}}' }

test('the patch of pods is checked by the cluster: what it refuses, or drops, ends the start', async () => {
  const taken = await cluster({ nodes: [], onNode: () => ({}) })
  await checkPodPatch(taken.settings(PATCH), silentLog)
  const refusing = await cluster({ nodes: [], onNode: () => ({}), dryRun: () => [403, { message: 'no PriorityClass with name low was found' }] })
  await expect(checkPodPatch(refusing.settings(PATCH), silentLog)).rejects.toThrow(/COB_KUBERNETES_POD_PATCH.*no PriorityClass with name low/)
  const dropping = await cluster({
    nodes: [],
    onNode: () => ({}),
    dryRun: (pod) => {
      const made = structuredClone(pod)
      made.spec!.tolerations = [{ operator: 'Exists' }]
      return [201, made]
    },
  })
  await expect(checkPodPatch(dropping.settings(PATCH), silentLog)).rejects.toThrow(/COB_KUBERNETES_POD_PATCH.*"spec.tolerations\[0\]"/)
})

test('a full quota, and a cluster that is away, say nothing about the patch', async () => {
  for (const [status, message] of [
    [403, 'exceeded quota: few'],
    [503, 'away'],
  ] as const) {
    const { settings } = await cluster({ nodes: [], onNode: () => ({}), dryRun: () => [status, { message }] })
    await checkPodPatch(settings(PATCH), silentLog)
  }
})
