// The addresses of the API that stay open while its name resolves to others, over a cluster of scripted calls.
import { ApiException, type V1NetworkPolicy, type V1Pod } from '@kubernetes/client-node'
import { expect, test } from 'vitest'
import { readConfig } from '../../base/config.ts'
import { silentLog } from '../../base/log.ts'
import { sleep } from '../../base/wait.ts'
import type { Cluster } from './api.ts'
import { makeWalls } from './walls.ts'

const { signal } = new AbortController()
const at = (host: string) => ({ host, port: 2627 })

/** A cluster with these pods of apps, and the one policy that it holds. */
function clusterOf(pods: V1Pod[]) {
  let policy: V1NetworkPolicy | undefined
  let changes = 0
  const networking = {
    async createNamespacedNetworkPolicy({ body }: { body: V1NetworkPolicy }) {
      if (policy) throw new ApiException(409, 'exists', {}, {})
      changes++
      policy = body
    },
    async replaceNamespacedNetworkPolicy({ body }: { body: V1NetworkPolicy }) {
      changes++
      policy = body
    },
  }
  const core = { listNamespacedPod: async () => ({ items: pods }) }
  const cluster = { networking, core, namespace: 'here' } as unknown as Cluster
  const config = readConfig({ HOME: '/home/someone' })
  config.kubernetes.allowOpenNetwork = true // nothing is tried
  return {
    walls: (startingMs?: number) =>
      makeWalls({
        cluster,
        config,
        scope: 's',
        startPod: () => Promise.reject(new Error('nothing is started')),
        log: silentLog,
        ...(startingMs !== undefined && { startingMs }),
      }),
    changes: () => changes,
    open: () =>
      (policy?.spec?.egress ?? [])
        .filter(({ ports }) => ports?.[0]?.port === 2627)
        .flatMap(({ to }) => to!.map(({ ipBlock }) => ipBlock!.cidr))
        .toSorted(),
  }
}
const podWith = (servers: string, phase = 'Running'): V1Pod => ({ metadata: { annotations: { 'cob.servers': servers } }, status: { phase } })

test('all addresses of a name are open, and earlier ones stay open for starts that are under way', async () => {
  const { walls, changes, open } = clusterOf([])
  const { close } = walls()
  await close('app', [at('10.0.0.1'), at('10.0.0.2')], signal)
  expect(open()).toEqual(['10.0.0.1/32', '10.0.0.2/32'])
  await Promise.all([close('app', [at('10.0.0.3')], signal), close('app', [at('10.0.0.4')], signal)])
  for (const host of ['10.0.0.1', '10.0.0.3', '10.0.0.4']) await close('app', [at(host)], signal)
  expect(open()).toEqual(['10.0.0.1/32', '10.0.0.2/32', '10.0.0.3/32', '10.0.0.4/32'])
  expect(changes()).toBeLessThanOrEqual(3)
})

test('addresses of pods that run stay open, also after a restart of the service; others are closed later', async () => {
  const pods = [podWith('10.0.0.1 2627,fd00::1 2627'), podWith('10.0.0.9 2627', 'Succeeded'), podWith('0.0.0.0/0 1,nothing')]
  const { walls, open } = clusterOf(pods)
  const { close } = walls(20)
  await close('app', [at('10.0.0.2')], signal)
  expect(open()).toEqual(['10.0.0.1/32', '10.0.0.2/32', 'fd00::1/128'])
  pods.length = 0
  await sleep(40)
  await close('app', [at('10.0.0.2')], signal)
  expect(open()).toEqual(['10.0.0.2/32'])
})

test('a policy has at most 64 addresses, the newest ones', async () => {
  const { walls, open } = clusterOf([])
  const { close } = walls()
  for (let host = 1; host <= 100; host++) await close('app', [at(`10.0.0.${host}`)], signal)
  expect([open().length, open().includes('10.0.0.100/32'), open().includes('10.0.0.36/32'), open().includes('10.0.0.37/32')]).toEqual([64, true, false, true])
})
