// The trial of network policies, over pods that are servers of this test: it fails when the network lets something in, or out.
import { once } from 'node:events'
import { createServer } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { readConfig } from '../../base/config.ts'
import { silentLog } from '../../base/log.ts'
import { PROGRAM_PORT } from '../containers/engine.ts'
import type { Cluster } from './api.ts'
import { assertEnforced, nodeResolvers, OpenNetwork } from './enforced.ts'
import type { StartPod } from './starts.ts'

/** Addresses of this machine that nothing else uses. */
const [TRIAL, TARGET] = ['127.77.3.1', '127.77.3.2']

async function listen(host: string, port: number, answer: (line: string) => string): Promise<void> {
  const server = createServer((socket) => {
    socket.on('error', () => {})
    socket.once('data', (line) => void socket.end(answer(String(line).trim())))
  })
  await once(server.listen(port, host), 'listening')
  onTestFinished(() => void server.close())
}

/** A cluster in which pods run at once. It records which kinds were started, and which were not removed. */
function cluster() {
  const kinds: string[] = []
  const there = new Set<string>()
  const core = {
    listNamespacedPod: async () => ({ items: [] }),
    deleteNamespacedPod: async ({ name }: { name: string }) => void there.delete(name),
  }
  const startPod: StartPod = async (name, { metadata }) => {
    const kind = metadata!.labels!['cob.kind']!
    kinds.push(kind)
    there.add(name)
    return { host: kind === 'trial-target' ? TARGET : TRIAL, port: PROGRAM_PORT }
  }
  const trial = {
    cluster: { core, namespace: 'here' } as unknown as Cluster,
    config: readConfig({ HOME: '/home/someone' }),
    scope: 's',
    startPod,
    log: silentLog,
  }
  return { trial, kinds, there }
}

test.each(['browser', 'app'] as const)('a network that lets nothing of pods of the kind %s in or out is taken', async (kind) => {
  const { trial, kinds, there } = cluster()
  const asked: string[] = []
  await listen(TRIAL, PROGRAM_PORT, (line) => (asked.push(line), 'closed'))
  await listen(TARGET, PROGRAM_PORT + 1, () => '')
  await assertEnforced(kind, trial)
  expect([kinds, asked, there.size]).toEqual([['trial-target', `${kind}-trial`], [`${TARGET} ${PROGRAM_PORT + 1}`], 0])
})

test('a network that lets a pod out is refused', async () => {
  const { trial, there } = cluster()
  await listen(TRIAL, PROGRAM_PORT, () => 'reached')
  await listen(TARGET, PROGRAM_PORT + 1, () => '')
  const refused = assertEnforced('app', trial)
  await expect(refused).rejects.toBeInstanceOf(OpenNetwork)
  await expect(refused).rejects.toThrow(/kind app reached another pod/)
  expect(there.size).toBe(0)
})

test('a network that lets others in is refused', async () => {
  const { trial } = cluster()
  await listen(TRIAL, PROGRAM_PORT, () => 'closed')
  await listen(TRIAL, PROGRAM_PORT + 1, () => '')
  await listen(TARGET, PROGRAM_PORT + 1, () => '')
  await expect(assertEnforced('browser', trial)).rejects.toThrow(/port of pods of the kind browser that the policy closes was reached/)
})

test('the resolvers of the nodes are asked for', async () => {
  const { trial, there } = cluster()
  await listen(TRIAL, PROGRAM_PORT, (line) => (line === 'resolvers' ? 'nameserver 10.0.0.2\noptions ndots:5\n' : ''))
  expect([await nodeResolvers(trial), there.size]).toEqual([['10.0.0.2'], 0])
})
