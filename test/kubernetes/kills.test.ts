// Kills parts of a cluster, and checks which sessions survive: its API, a kubelet, a containerd, a drained node, and a dead node.
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { readConfig } from '../../src/base/config.ts'
import { fixedKeys } from '../../src/base/keys.ts'
import { silentLog } from '../../src/base/log.ts'
import { makeSealer } from '../../src/base/sealed.ts'
import { sleep, until, within } from '../../src/base/wait.ts'
import { storedEndpoints } from '../../src/http/stored-endpoint.ts'
import { containerDriver } from '../../src/instances/containers/driver.ts'
import { kubernetesEngine } from '../../src/instances/kubernetes/kubernetes.ts'
import { EngineAway, type Driver, type Instance } from '../../src/instances/driver.ts'
import { picture, spec } from '../../src/instances/driver.suite.ts'
import { kubectl, kubectlSoon, whileAway } from './cluster.ts'

const START_MS = 120_000
/** How long a killed program stays down. */
const AWAY_MS = 60_000
const SCOPE = 'kills'

let driver: Driver
/** Each driver belongs to another service, which runs sessions on one node only. */
const drivers: Driver[] = []
function driverOn(node: string): Driver {
  const config = readConfig({ ...process.env, COB_DRIVER: 'kubernetes', COB_KUBERNETES_NODE_SELECTOR: `kubernetes.io/hostname=${node}` })
  const engine = kubernetesEngine({ config, scope: SCOPE, replica: 'test', log: silentLog })
  const made = containerDriver({ config, engine, endpoints: storedEndpoints(makeSealer(fixedKeys(Buffer.alloc(32, 1)), 'endpoints')), log: silentLog })
  drivers.push(made)
  return made
}
const start = (on: Driver): Promise<Instance> => on.start(spec(), AbortSignal.timeout(START_MS))
const pods = (): string => kubectl('get', 'pods', '--selector', `cob.scope=${SCOPE}`, '--output', 'name')
const readyNodes = async (): Promise<number> => (await kubectlSoon('get', 'nodes', '--no-headers')).match(/\bReady\b/g)?.length ?? 0
const bothReady = () => until('both nodes', START_MS, async () => (await readyNodes().catch(() => 0)) === 2, { everyMs: 1_000 })

beforeAll(() => {
  driver = driverOn('node1')
})
afterAll(async () => {
  await bothReady()
  kubectl('uncordon', 'node1', 'node2')
  await Promise.all(drivers.map((made) => made[Symbol.asyncDispose]()))
  expect(pods()).toBe('')
  kubectl('delete', 'networkpolicies', '--selector', `cob.scope=${SCOPE}`)
}, START_MS)

describe.each(['apiserver', 'kubelet1', 'containerd1'])('%s is killed, and is away for a minute', (program) => {
  test('sessions go on; one that is made afterwards comes up', { timeout: 300_000 }, async () => {
    await using instance = await start(driver)
    let hasEnded = false
    void instance.exited.then(() => (hasEnded = true))
    await whileAway(program, async () => {
      await sleep(AWAY_MS)
      expect((await picture(instance)).status).toBe(200)
    })
    await bothReady()
    expect((await picture(instance)).status).toBe(200)
    expect(hasEnded).toBe(false)
    await using another = await start(driver)
    expect((await picture(another)).status).toBe(200)
  })
})

test('while the API is away, an end is tried until it is done, and a start fails as something that passes', { timeout: 300_000 }, async () => {
  const instance = await start(driver)
  await whileAway('apiserver', async () => {
    await expect(instance[Symbol.asyncDispose]()).rejects.toThrow(/deleting a pod: fetch failed/)
    const refused = await start(driver).catch((error: unknown) => error)
    expect(refused).toBeInstanceOf(EngineAway)
    expect(refused).toMatchObject({ isUndone: true, cause: { message: 'making a pod: fetch failed' } })
  })
  await until(
    'nothing to be left',
    START_MS,
    async () => (await kubectlSoon('get', 'pods', '--selector', `cob.scope=${SCOPE}`, '--output', 'name').catch(() => 'away')) === '',
    {
      everyMs: 1_000,
    },
  )
})

test('a node that is drained ends its sessions, and says so', { timeout: 300_000 }, async () => {
  await using instance = await start(driver)
  // `--force`, because no controller would create these pods again.
  try {
    await kubectlSoon('drain', 'node1', '--force', '--delete-emptydir-data', '--ignore-daemonsets', '--timeout=60s')
    const exit = await within('the end of the session', START_MS, instance.exited)
    expect(exit).toEqual({ reason: expect.stringMatching(/its node is being drained/), cause: 'evicted' })
    await expect(start(driver)).rejects.toThrow(/no node of the cluster has room/)
  } finally {
    kubectl('uncordon', 'node1')
  }
})

test('a node that dies ends its sessions, says so, and leaves nothing', { timeout: 300_000 }, async () => {
  const other = driverOn('node2')
  await using instance = await start(other)
  const run = process.env.COB_TEST_CLUSTER!
  const inNode2 = (...command: string[]) => execFileSync('nsenter', ['--target', readFileSync(join(run, 'pids/node2'), 'utf8').trim(), '--net', ...command])
  // The node stops answering, and nothing reports that it is gone.
  inNode2('ip', 'link', 'set', 'eth0', 'down')
  try {
    const exit = await within('the end of the session', 200_000, instance.exited)
    expect(exit).toEqual({ reason: expect.stringMatching(/its node does not answer the cluster any more/), cause: 'node_lost' })
    await instance[Symbol.asyncDispose]()
    expect(pods()).toBe('')
  } finally {
    inNode2('ip', 'link', 'set', 'eth0', 'up')
    inNode2('ip', 'route', 'replace', 'default', 'via', '10.90.0.1')
  }
})
