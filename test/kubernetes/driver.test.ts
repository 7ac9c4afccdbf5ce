// The promises of every driver, kept by pods of a real cluster (script/test-kubernetes starts it), and promises that only this driver makes.
import { existsSync, renameSync } from 'node:fs'
import { basename, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { processes } from '../../src/agent/process/contract.ts'
import { readConfig } from '../../src/base/config.ts'
import { fixedKeys } from '../../src/base/keys.ts'
import { silentLog } from '../../src/base/log.ts'
import { makeSealer } from '../../src/base/sealed.ts'
import { Unavailable } from '../../src/base/unavailable.ts'
import { call } from '../../src/http/client.ts'
import { storedEndpoints } from '../../src/http/stored-endpoint.ts'
import { containerDriver } from '../../src/instances/containers/driver.ts'
import { checkPodPatch, kubernetesEngine } from '../../src/instances/kubernetes/kubernetes.ts'
import { NoRoom, type Driver, type Instance } from '../../src/instances/driver.ts'
import { driverSuite, picture, spec } from '../../src/instances/driver.suite.ts'
import { kubectl } from './cluster.ts'

const CALL_MS = 120_000
const endpoints = storedEndpoints(makeSealer(fixedKeys(Buffer.alloc(32, 1)), 'endpoints'))
const scopes = new Set<string>()

function driverOf(scope: string, more: Record<string, string> = {}): Driver {
  scopes.add(scope)
  const config = readConfig({ ...process.env, COB_DRIVER: 'kubernetes', ...more })
  return containerDriver({ config, engine: kubernetesEngine({ config, scope, replica: 'test', log: silentLog }), endpoints, log: silentLog })
}
const scopeOf = (path: string): string =>
  basename(path)
    .toLowerCase()
    .replace(/[^a-z0-9]/g, '')

const podsOf = (selector: string): string[] => kubectl('get', 'pods', '--selector', selector, '--output', 'name').split('\n').filter(Boolean)

driverSuite(
  'kubernetes',
  ({ root }) => driverOf(scopeOf(root)),
  (_, id) => podsOf(`cob.id=${id}`),
)

afterAll(() => {
  for (const scope of scopes) {
    expect(podsOf(`cob.scope=${scope}`)).toEqual([])
    kubectl('delete', 'networkpolicies', '--selector', `cob.scope=${scope}`)
  }
})

describe('an instance', () => {
  let driver: Driver
  let instance: Instance
  beforeAll(async () => {
    driver = driverOf('wall')
    instance = await driver.start(spec(), AbortSignal.timeout(CALL_MS))
  }, CALL_MS)
  afterAll(async () => {
    await instance[Symbol.asyncDispose]()
    await driver[Symbol.asyncDispose]()
  })

  async function shell(line: string): Promise<string> {
    const body = { command: '/bin/sh', args: ['-c', line], timeout_sec: 30 }
    const { stdout_b64: out } = await call(instance.agent, processes.execProcess, { body }, { signal: AbortSignal.timeout(CALL_MS) })
    return Buffer.from(out ?? '', 'base64').toString()
  }

  test('has no rights, no token of the cluster, a read-only system, and a filter of system calls; its browser has its own sandbox', async () => {
    const out = await shell(
      "grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status; id -u; touch /usr/x 2>&1; ls /var/run/secrets 2>&1; grep -laz -- '^--no-sand[b]ox$' /proc/[0-9]*/cmdline 2>/dev/null | wc -l",
    )
    expect(out).toMatch(/CapEff:\s+0+\n/)
    expect(out).toMatch(/CapBnd:\s+0+\n/)
    expect(out).toMatch(/NoNewPrivs:\s+1\n/)
    expect(out).toMatch(/Seccomp:\s+2\n/)
    expect(out).toContain('Read-only file system')
    expect(out).toContain("cannot access '/var/run/secrets'")
    expect(out.trim().endsWith('\n0')).toBe(true)
  })

  test('cannot look into the agent; neither the pod nor its log has its keys', async () => {
    const out = await shell(
      'agent=$(pgrep -f agent.mjs | head -1); cat /proc/$agent/environ /proc/$agent/mem 2>&1; ls /proc/$agent/fd 2>&1; grep -ral BEGIN.PRIVATE.KEY /proc/*/environ /proc/*/cmdline /run /tmp /home 2>/dev/null; true',
    )
    expect(out.match(/Permission denied/g)).toHaveLength(3)
    const name = `cob-browser-${instance.id}`
    expect(out + kubectl('get', 'pod', name, '--output', 'json') + kubectl('logs', name)).not.toContain('PRIVATE')
    const { credential } = instance.agent as { credential?: string }
    expect(credential).toEqual(expect.any(String))
    expect(kubectl('get', 'pod', name, '--output', 'json')).not.toContain(credential)
  })

  test('has the home, the memory and the names that are promised', async () => {
    const out = await shell(
      'cd ~ && pwd && touch x && rm x && df --output=size,fstype /home/kernel /dev/shm | tail -n 2; hostname; cat /etc/resolv.conf | head -3; env | grep -c _SERVICE_HOST',
    )
    expect(out).toMatch(/^\/home\/kernel\n\s*\d+ tmpfs\n\s*\d+ tmpfs\ncob\n/)
  })
})

test('a pod is of the restricted kind, and is closed by a policy of its scope', async () => {
  const driver = driverOf('closed')
  {
    await using instance = await driver.start(spec(), AbortSignal.timeout(CALL_MS))
    const { spec: pod } = JSON.parse(kubectl('get', 'pod', `cob-browser-${instance.id}`, '--output', 'json')) as { spec: Record<string, unknown> }
    expect(pod).toMatchObject({
      automountServiceAccountToken: false,
      // With None, the pod lists the nodes' resolvers itself.
      dnsPolicy: 'None',
      restartPolicy: 'Never',
      securityContext: { runAsNonRoot: true, runAsUser: 1000, seccompProfile: { type: 'Localhost' } },
      containers: [{ securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] }, readOnlyRootFilesystem: true } }],
    })
    for (const forbidden of ['hostNetwork', 'hostPID', 'hostIPC']) expect(pod).not.toHaveProperty(forbidden)
    const policy = JSON.parse(kubectl('get', 'networkpolicy', 'cob-closed-browser', '--output', 'json')) as {
      spec: { policyTypes: string[]; egress: unknown[] }
    }
    expect(policy.spec.policyTypes.toSorted()).toEqual(['Egress', 'Ingress'])
    expect(JSON.stringify(policy.spec.egress)).toContain('169.254.0.0/16')
    const { nameservers } = (pod as { dnsConfig: { nameservers: string[] } }).dnsConfig
    const names = JSON.parse(kubectl('get', 'networkpolicies', '--selector', 'cob.scope=closed', '--output', 'json')) as {
      items: { metadata: { name: string }; spec: { podSelector: { matchLabels: Record<string, string> }; egress?: unknown } }[]
    }
    const label = kubectl('get', 'pod', `cob-browser-${instance.id}`, '--output', 'jsonpath={.metadata.labels.cob\\.resolvers}')
    expect(names.items.find(({ spec: { podSelector } }) => podSelector.matchLabels['cob.resolvers'] === label)?.spec.egress).toEqual([
      {
        ports: [
          { protocol: 'UDP', port: 53 },
          { protocol: 'TCP', port: 53 },
        ],
        to: nameservers.map((address) => ({ ipBlock: { cidr: `${address}/32` } })),
      },
    ])
  }
  await driver[Symbol.asyncDispose]()
})

test('a cluster that enforces no policies is refused, unless the operator says otherwise', async () => {
  const driver = driverOf('open', { COB_KUBERNETES_ALLOW_OPEN_NETWORK: '0' })
  await expect(driver.start(spec(), AbortSignal.timeout(CALL_MS))).rejects.toThrow('does not enforce network policies')
  await driver[Symbol.asyncDispose]()
})

describe('a cluster without room', () => {
  test('says so when its quota is used up, and leaves nothing', async () => {
    const driver = driverOf('quota')
    kubectl('create', 'quota', 'few', '--hard=pods=0')
    try {
      const refused = driver.start(spec(), AbortSignal.timeout(CALL_MS))
      await expect(refused).rejects.toBeInstanceOf(NoRoom)
      await expect(refused).rejects.toThrow(/quota.*few/)
    } finally {
      kubectl('delete', 'quota', 'few')
      await driver[Symbol.asyncDispose]()
    }
  })

  test('says so when no node is right', async () => {
    const driver = driverOf('nodes', { COB_KUBERNETES_NODE_SELECTOR: 'cob.dev/none=here' })
    const refused = driver.start(spec(), AbortSignal.timeout(CALL_MS))
    await expect(refused).rejects.toBeInstanceOf(NoRoom)
    await expect(refused).rejects.toThrow(/no node of the cluster has room.*node/)
    await driver[Symbol.asyncDispose]()
  })
})

describe('what a node lacks is said', () => {
  test.each([
    ['an image', { COB_KUBERNETES_IMAGE: 'no-such-image' }, /no-such-image/],
    ['a seccomp profile', { COB_KUBERNETES_SECCOMP: 'none/such.json' }, /seccomp/],
  ])('%s', async (_, settings, message) => {
    const driver = driverOf('lacking', settings)
    await expect(driver.start(spec(), AbortSignal.timeout(CALL_MS))).rejects.toThrow(message)
    await driver[Symbol.asyncDispose]()
  })
})

test('a node that cannot start pods is left for another one, and when none can, that is said within seconds', async () => {
  const [first, second] = ['node1', 'node2'].map((node) => join(process.env.COB_TEST_CLUSTER!, `kubelet${node.slice(-1)}/seccomp/cob/instance.json`))
  const driver = driverOf('newnode')
  renameSync(first!, `${first}.away`)
  try {
    {
      await using instance = await driver.start(spec(), AbortSignal.timeout(CALL_MS))
      expect(kubectl('get', 'pod', `cob-browser-${instance.id}`, '--output', 'jsonpath={.spec.nodeName}')).toBe('node2')
    }
    renameSync(second!, `${second}.away`)
    const refused = driver.start(spec(), AbortSignal.timeout(CALL_MS))
    await expect(refused).rejects.toBeInstanceOf(Unavailable)
    await expect(refused).rejects.toThrow(/could not start a pod: .*seccomp/)
  } finally {
    for (const file of [first!, second!]) if (existsSync(`${file}.away`)) renameSync(`${file}.away`, file)
    await driver[Symbol.asyncDispose]()
  }
})

test("an operator's tolerations and priority are in the pod; what the cluster does not take ends the start of the service", async () => {
  const patch = (priorityClassName: string) => JSON.stringify({ spec: { tolerations: [{ key: 'pool', operator: 'Exists' }], priorityClassName } })
  kubectl('create', 'priorityclass', 'cob-low', '--value=1')
  try {
    const settings = (name: string) => ({
      config: readConfig({ ...process.env, COB_DRIVER: 'kubernetes', COB_KUBERNETES_POD_PATCH: patch(name) }),
      scope: 'patched',
      replica: 'test',
    })
    await checkPodPatch(settings('cob-low'), silentLog)
    await expect(checkPodPatch(settings('cob-none'), silentLog)).rejects.toThrow(/COB_KUBERNETES_POD_PATCH.*cob-none/)
    const driver = driverOf('patched', { COB_KUBERNETES_POD_PATCH: patch('cob-low') })
    {
      await using instance = await driver.start(spec(), AbortSignal.timeout(CALL_MS))
      const pod = JSON.parse(kubectl('get', 'pod', `cob-browser-${instance.id}`, '--output', 'json')) as { spec: object }
      expect(pod.spec).toMatchObject({ priorityClassName: 'cob-low', tolerations: expect.arrayContaining([expect.objectContaining({ key: 'pool' })]) })
    }
    await driver[Symbol.asyncDispose]()
  } finally {
    kubectl('delete', 'priorityclass', 'cob-low')
  }
})

test('an instance whose pod was deleted says that', async () => {
  const driver = driverOf('ends')
  {
    await using instance = await driver.start(spec(), AbortSignal.timeout(CALL_MS))
    expect((await picture(instance)).status).toBe(200)
    kubectl('delete', 'pod', `cob-browser-${instance.id}`, '--wait=false')
    expect(await instance.exited).toEqual({ reason: expect.stringMatching(/its pod was deleted/), cause: 'evicted' })
  }
  await driver[Symbol.asyncDispose]()
})
