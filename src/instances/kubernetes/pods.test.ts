// The watch of pods, over an API with the events of the test.
import { CoreV1Api, KubeConfig, type V1Pod } from '@kubernetes/client-node'
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, test } from 'vitest'
import { silentLog } from '../../base/log.ts'
import { until } from '../../base/wait.ts'
import type { Cluster } from './api.ts'
import { watchPods } from './pods.ts'

const NOTICE_MS = 5_000

async function clusterAlone(scope: AsyncDisposableStack) {
  let watch: ServerResponse | undefined
  const server = createServer(({ url }, response) => {
    response.setHeader('content-type', 'application/json')
    if (url!.includes('watch=true')) (watch = response.writeHead(200)).flushHeaders()
    else response.end(JSON.stringify({ kind: 'PodList', apiVersion: 'v1', metadata: { resourceVersion: '1' }, items: [] }))
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  scope.defer(() => (server.closeAllConnections(), void server.close()))
  const config = new KubeConfig()
  config.loadFromClusterAndUser({ name: 'c', skipTLSVerify: true, server: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }, { name: 'u' })
  const cluster = { config, core: config.makeApiClient(CoreV1Api), namespace: 'here' } as Cluster
  const pods = scope.use(watchPods(cluster, 's', silentLog))
  await until('the watch', NOTICE_MS, () => watch !== undefined)
  const metadata = { name: 'one', namespace: 'here', labels: {} }
  return { pods, tell: (type: string, status: V1Pod['status']) => void watch!.write(`${JSON.stringify({ type, object: { metadata, status } })}\n`) }
}
const state = (is: object) => ({ containerStatuses: [{ name: 'instance', state: is }] }) as V1Pod['status']

test('a pod that has the name of one that is gone is not taken for it', async () => {
  await using scope = new AsyncDisposableStack()
  const { pods, tell } = await clusterAlone(scope)
  const signal = AbortSignal.timeout(NOTICE_MS)
  tell('ADDED', state({ running: {} }))
  await pods.when('one', (standing) => standing.state === 'running' || undefined, signal)
  tell('DELETED', state({ running: {} }))
  await pods.when('one', (standing) => standing.state === 'ended' || undefined, signal)
  pods.forget('one')
  expect(await pods.when('one', ({ state: first }) => first, signal)).toBe('waiting')
  tell('ADDED', state({ running: {} }))
  expect(await pods.when('one', ({ state: now }) => (now === 'waiting' ? undefined : now), signal)).toBe('running')
})
