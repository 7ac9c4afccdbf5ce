// A node that is ready for sessions has the profile and the label; another node has no label. The remains of a scope are removed, pods first.
import { ApiException, type V1NetworkPolicy, type V1Pod } from '@kubernetes/client-node'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { until } from '../../base/wait.ts'
import type { Cluster } from './api.ts'
import { keepNodeReady, removeLabel } from './node-ready.ts'
import { removeScope } from './remove.ts'

const SOON_MS = 5_000
const LABEL = 'cob.dev/here.cob'

test('the file is kept as it has to be, and the label is there exactly as long as the file', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'cob-node-'))
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }))
  const folder = join(dir, 'cob')
  mkdirSync(folder)
  const file = join(folder, 'instance.json')
  const labels: Record<string, string> = { other: 'stays' }
  let changes = 0
  const core = {
    readNode: async () => ({ metadata: { labels: { ...labels } } }),
    patchNode: async ({ body }: { body: { op: string; path: string; value?: string }[] }) => {
      changes++
      for (const { op, path, value } of body) {
        expect(path).toBe('/metadata/labels/cob.dev~1here.cob')
        if (op === 'add') labels[LABEL] = value!
        else delete labels[LABEL]
      }
      return {}
    },
  }
  const stop = new AbortController()
  const said: string[] = []
  const kept = keepNodeReady(
    { node: { core: core as never, name: 'n', label: LABEL }, file, profile: 'PROFILE', say: (line) => said.push(line), lookMs: 5 },
    stop.signal,
  )
  const isReady = (ready: boolean) => until('the label', SOON_MS, () => (labels[LABEL] === 'ready') === ready && existsSync(file) === ready)
  await isReady(true)
  writeFileSync(file, 'something else')
  await until('the profile', SOON_MS, () => readFileSync(file, 'utf8') === 'PROFILE')
  expect(changes).toBe(1)
  // The node loses the folder, like a node that is recreated under an old name.
  rmSync(folder, { recursive: true })
  await isReady(false)
  mkdirSync(folder)
  await isReady(true)
  stop.abort()
  await kept
  expect(labels).toEqual({ other: 'stays' })
  expect(said.some((line) => line.startsWith('this node is not ready for sessions'))).toBe(true)
  expect(said.length).toBeLessThan(6)
})

test('a label is taken from all nodes, also when one has just gone or lost it', async () => {
  const asked: string[] = []
  const core = {
    listNode: async ({ labelSelector }: { labelSelector: string }) => {
      expect(labelSelector).toBe(LABEL)
      return { items: ['a', 'b', 'c'].map((name) => ({ metadata: { name } })) }
    },
    patchNode: async ({ name, body }: { name: string; body: object[] }) => {
      asked.push(name)
      expect(body).toEqual([{ op: 'remove', path: '/metadata/labels/cob.dev~1here.cob' }])
      if (name !== 'c') throw new ApiException(name === 'a' ? 404 : 422, 'no', {}, {})
    },
  }
  expect(await removeLabel(core as never, LABEL)).toBe(3)
  expect(asked).toEqual(['a', 'b', 'c'])
  const refused = { ...core, patchNode: () => Promise.reject(new ApiException(403, 'no', { message: 'nodes is forbidden' }, {})) }
  await expect(removeLabel(refused as never, LABEL)).rejects.toThrow('taking the label from node a: nodes is forbidden')
})

test('pods of a scope are removed before the policies that close them', async () => {
  const steps: string[] = []
  let pods = ['a', 'b'].map((name): V1Pod => ({ metadata: { name } }))
  const policies = ['p', 'q'].map((name): V1NetworkPolicy => ({ metadata: { name } }))
  const cluster = {
    namespace: 'here',
    core: {
      listNamespacedPod: async ({ labelSelector }: { labelSelector: string }) => {
        expect(labelSelector).toBe('cob.scope=s')
        return { items: pods }
      },
      deleteNamespacedPod: async ({ name }: { name: string }) => {
        steps.push(`pod ${name}`)
        pods = pods.filter(({ metadata }) => metadata!.name !== name)
      },
    },
    networking: {
      listNamespacedNetworkPolicy: async () => ({ items: policies }),
      deleteNamespacedNetworkPolicy: async ({ name }: { name: string }) => {
        steps.push(`policy ${name}`)
        if (name === 'p') throw new ApiException(404, 'gone', {}, {})
      },
    },
  }
  expect(await removeScope(cluster as unknown as Cluster, 's', AbortSignal.timeout(SOON_MS))).toEqual({ pods: 2, policies: 2 })
  expect(steps).toEqual(['pod a', 'pod b', 'policy p', 'policy q'])
})
