// Helm installs the chart into a real cluster with the real images: two replicas, which create sessions with the rights of the chart's account.
import { loadAllYaml } from '@kubernetes/client-node'
import Kernel from '@onkernel/sdk'
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { chromium } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { PACKAGE_DIR } from '../../src/base/paths.ts'
import { sleep, until } from '../../src/base/wait.ts'
import { overTcp, ownPostgres } from '../support/postgres.ts'
import { KEYS, s3Server } from '../support/s3.ts'
import { scratchDir } from '../support/scratch.ts'
import { kubectl, kubectlSoon } from './cluster.ts'

const CALL_MS = 240_000
/** The pause between two calls of each caller while the replicas are replaced. */
const LOAD_PAUSE_MS = 500
/** The address of the bridge between the nodes. The cluster forwards connections to it to this machine's loopback. */
const HERE = '10.90.0.1'
const HELM = join(PACKAGE_DIR, '.cob/kubernetes/bin/helm')

const ended = new AsyncDisposableStack()
const key = randomBytes(24).toString('hex')
const profiles = scratchDir('cob-seccomp-')
let values: string
let chart: string

const SESSIONS = 'chartsessions'
const inCob = (...args: string[]): string => kubectl('--namespace', 'cob', ...args)
const helm = async (...args: string[]): Promise<string> => {
  const env = { ...process.env, KUBECONFIG: join(process.env.COB_TEST_CLUSTER ?? '', 'admin.yaml') }
  return (await promisify(execFile)(HELM, ['--namespace', 'cob', ...args], { timeout: CALL_MS, env })).stdout
}
const pods = (): { name: string; ip: string; ready: boolean }[] =>
  inCob(
    'get',
    'pods',
    '--selector',
    'app.kubernetes.io/component=service',
    '--output',
    'jsonpath={range .items[*]}{.metadata.name} {.status.podIP} {.status.containerStatuses[0].ready}{"\\n"}{end}',
  )
    .split('\n')
    .filter(Boolean)
    .map((line) => line.split(' '))
    .map(([name, ip, ready]) => ({ name: name!, ip: ip!, ready: ready === 'true' }))
const bothReady = () =>
  until(
    'two replicas',
    CALL_MS,
    () => {
      const found = pods()
      return found.length === 2 && found.every(({ ready }) => ready) && found
    },
    { everyMs: 1_000 },
  )
const clientOf = (ip: string) => new Kernel({ baseURL: `http://${ip}:2627`, apiKey: key })
/** A client that sends each call, also a repeated one, to the next of the replicas that the cluster's Service has at that moment. */
function clientOfAny(): Kernel {
  let calls = 0
  return new Kernel({
    baseURL: 'http://service',
    apiKey: key,
    fetch: async (url, init) => {
      const found = await kubectlSoon('--namespace', 'cob', 'get', 'endpoints', 'cob', '--output', 'jsonpath={.subsets[*].addresses[*].ip}')
      const addresses = found.split(' ')
      const address = new URL(url instanceof Request ? url.url : url)
      address.host = `${addresses[calls++ % addresses.length]}:2627`
      return await fetch(address, init)
    },
  })
}
/** Repeats the work until the signal aborts. Resolves with the number of times. @throws when it fails */
async function repeat(signal: AbortSignal, work: () => Promise<unknown>): Promise<number> {
  let times = 0
  while (!signal.aborted) {
    await work()
    times++
    await sleep(LOAD_PAUSE_MS, signal).catch(() => {}) // the loop ends
  }
  return times
}

// Without Go, script/kubernetes-binaries does not build Helm.
describe.skipIf(!existsSync(HELM))('the chart', () => {
  beforeAll(async () => {
    const { host } = await ownPostgres('chart', ended)
    const port = await overTcp(host, ended)
    const s3 = ended.use(await s3Server())
    kubectl('create', 'namespace', 'cob')
    kubectl('create', 'namespace', SESSIONS)
    ended.defer(async () => void (await kubectlSoon('delete', 'namespace', 'cob', SESSIONS)))
    const secret = (name: string, entries: Record<string, string>) =>
      inCob('create', 'secret', 'generic', name, ...Object.entries(entries).map(([entry, value]) => `--from-literal=${entry}=${value}`))
    secret('cob-keys', { COB_SECRET_KEY: randomBytes(32).toString('hex'), COB_API_KEY: key })
    secret('cob-database', { DATABASE_URL: `postgres://cob@${HERE}:${port}/postgres` })
    secret('cob-objects', { COB_S3_ACCESS_KEY_ID: KEYS.accessKeyId, COB_S3_SECRET_ACCESS_KEY: KEYS.secretAccessKey })
    const folder = scratchDir('cob-chart-')
    chart = join(folder, 'cob')
    cpSync(join(PACKAGE_DIR, 'charts/cob'), chart, { recursive: true })
    values = join(folder, 'values.json')
    mkdirSync(join(profiles, 'cob'), { recursive: true })
    const wanted = {
      image: { tag: 'latest' },
      database: { existingSecret: 'cob-database' },
      keys: { existingSecret: 'cob-keys' },
      objects: { existingSecret: 'cob-objects', bucket: 'logs', endpoint: s3.url.replace('127.0.0.1', HERE), region: 'us-east-1' },
      sessions: { namespace: SESSIONS, image: 'cob-instance' },
      scope: 'chart',
      // The kubelets of this cluster read profiles from another folder, which has the same file.
      seccomp: { folder: profiles },
      settings: { COB_KUBERNETES_ALLOW_OPEN_NETWORK: 1, COB_WARM_BROWSERS: 1 },
      resources: { requests: { cpu: '100m' } },
    }
    writeFileSync(values, JSON.stringify(wanted))
    await helm('install', 'cob', chart, '--values', values)
    ended.defer(async () => {
      await helm('uninstall', 'cob')
      for (const [what, ...where] of [
        ['pods', '--namespace', SESSIONS],
        ['networkpolicies', '--namespace', SESSIONS],
        ['networkpolicies', '--namespace', 'cob'],
        ['nodes', '--selector', 'cob.dev/cob.cob'],
      ])
        await until(`no ${what}`, CALL_MS, async () => (await kubectlSoon('get', what!, '--output', 'name', ...where)) === '', { everyMs: 1_000 })
    })
    await bothReady()
  }, CALL_MS)
  afterAll(() => ended.disposeAsync(), CALL_MS)

  test(
    'a session that one replica makes is used by the other one, and goes on when all replicas are replaced; callers meanwhile notice nothing',
    { timeout: CALL_MS },
    async () => {
      const [one, two] = pods()
      const { session_id: id } = await clientOf(one!.ip).browsers.create({ timeout_seconds: 600 })
      const { cdp_ws_url: url } = await clientOf(two!.ip).browsers.retrieve(id)
      const connected = await chromium.connectOverCDP(url)
      await (await connected.contexts()[0]!.newPage()).setContent('<title>kept</title>')
      await connected.close()
      const client = clientOfAny()
      const stop = new AbortController()
      const load = Promise.all([
        repeat(stop.signal, () => client.browsers.process.exec(id, { command: 'true' })),
        repeat(stop.signal, async () => client.browsers.deleteByID((await client.browsers.create()).session_id)),
      ])
      load.catch(() => {}) // it is awaited below
      try {
        // A change of settings replaces the replicas one after the other.
        await helm('upgrade', 'cob', chart, '--values', values, '--set-string', 'settings.COB_LOG_LEVEL=debug')
        const before = new Set([one!.name, two!.name])
        await until(
          'new replicas',
          CALL_MS,
          () => {
            const found = pods()
            return found.length === 2 && found.every(({ name, ready }) => ready && !before.has(name))
          },
          { everyMs: 1_000 },
        )
      } finally {
        stop.abort()
      }
      const [uses, creates] = await load
      expect([uses > 5, creates > 2]).toEqual([true, true])
      const again = await chromium.connectOverCDP((await client.browsers.retrieve(id)).cdp_ws_url)
      expect(
        await Promise.all(
          again
            .contexts()[0]!
            .pages()
            .map((page) => page.title()),
        ),
      ).toContain('kept')
      await again.close()
      await client.browsers.deleteByID(id)
      await until(
        'the pod to be gone',
        CALL_MS,
        async () => (await kubectlSoon('--namespace', SESSIONS, 'get', 'pods', '--selector', `cob.id=${id}`, '--output', 'name')) === '',
        {
          everyMs: 500,
        },
      )
    },
  )

  test("each node gets the profile of sessions' system calls, and a label while it has it", async () => {
    const file = join(profiles, 'cob/instance.json')
    const ready = async () => (await kubectlSoon('get', 'nodes', '--selector', 'cob.dev/cob.cob=ready', '--output', 'name')).split('\n').filter(Boolean).length
    await until('the labels', CALL_MS, async () => (await ready()) === 2, { everyMs: 1_000 })
    await until('the profile', CALL_MS, () => existsSync(file))
    expect(readFileSync(file, 'utf8')).toBe(readFileSync(join(process.env.COB_TEST_CLUSTER!, 'kubelet1/seccomp/cob/instance.json'), 'utf8'))
  })
})

interface Made {
  kind: string
  metadata: { name: string; namespace?: string; annotations?: Record<string, string> }
  spec: Record<string, unknown> & {
    template: { spec: { containers: { command?: string[]; env: { name: string; value?: string }[] }[]; tolerations?: object[] } }
  }
}

describe.skipIf(!existsSync(HELM))('the chart as it is rendered', () => {
  const REQUIRED = { database: { existingSecret: 'd' }, keys: { existingSecret: 'k' }, objects: { existingSecret: 'o', bucket: 'b' } }
  async function rendered(wanted: object = {}): Promise<Made[]> {
    const file = join(scratchDir('cob-values-'), 'values.json')
    writeFileSync(file, JSON.stringify({ ...REQUIRED, ...wanted }))
    const text = await helm('template', 'cob', join(PACKAGE_DIR, 'charts/cob'), '--values', file, '--kube-version', '1.30.0')
    return loadAllYaml(text).filter((one) => one !== null) as Made[]
  }
  const of = (made: Made[], kind: string, name = 'cob') => made.find((one) => one.kind === kind && one.metadata.name === name)!
  const setting = (made: Made[], name: string) => of(made, 'Deployment').spec.template.spec.containers[0]!.env.find((one) => one.name === name)?.value

  test('replaces one replica after the other, unless it is told otherwise', async () => {
    expect(of(await rendered(), 'Deployment').spec.strategy).toEqual({ type: 'RollingUpdate', rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } })
    expect(of(await rendered({ strategy: 'Recreate' }), 'Deployment').spec.strategy).toEqual({ type: 'Recreate' })
  })

  test('sends sessions to nodes that its DaemonSet has made ready, with the tolerations that both have', async () => {
    const tolerations = [{ key: 'pool', operator: 'Exists' }]
    const made = await rendered({ sessions: { nodeSelector: { pool: 'b' }, pod: { tolerations, priorityClassName: 'low' } } })
    expect(setting(made, 'COB_KUBERNETES_NODE_SELECTOR')).toBe('cob.dev/cob.cob=ready,pool=b')
    expect(JSON.parse(setting(made, 'COB_KUBERNETES_POD_PATCH')!)).toEqual({ spec: { tolerations, priorityClassName: 'low' } })
    const { spec } = of(made, 'DaemonSet', 'cob-seccomp').spec.template
    expect(spec.containers[0]!.command).toContain('--label=cob.dev/cob.cob')
    expect(spec.tolerations).toEqual(tolerations)
    const without = await rendered({ seccomp: { labelNodes: false } })
    expect([setting(without, 'COB_KUBERNETES_NODE_SELECTOR'), without.find(({ kind }) => kind === 'ClusterRole')]).toEqual([undefined, undefined])
    await expect(rendered({ sessions: { pod: { hostNetwork: true } } })).rejects.toThrow(/hostNetwork/)
  })

  test('opens one port of the service, and removes what sessions have left when it is uninstalled', async () => {
    const made = await rendered({ sessions: { namespace: 's' }, networkPolicy: { from: [{ namespaceSelector: {} }] } })
    expect(of(made, 'NetworkPolicy').spec).toMatchObject({
      policyTypes: ['Ingress'],
      ingress: [{ ports: [{ protocol: 'TCP', port: 'http' }], _from: [{ namespaceSelector: {} }] }],
    })
    expect(of(made, 'NetworkPolicy', 'cob-seccomp').spec).not.toHaveProperty('ingress')
    const job = of(made, 'Job', 'cob-uninstall')
    expect(job.metadata.annotations).toMatchObject({ 'helm.sh/hook': 'post-delete' })
    expect(job.spec.template.spec.containers[0]!.command).toContain('remove-pods')
    expect(job.spec.template.spec.containers[0]!.env).toContainEqual({ name: 'COB_KUBERNETES_NAMESPACE', value: 's' })
    expect(of(made, 'Role', 'cob-uninstall').metadata.namespace).toBe('s')
    // The job removes the nodes' labels, because the DaemonSet's account loses its rights before its pods end.
    expect(job.spec.template.spec.containers[0]!.command).toContain('--label=cob.dev/cob.cob')
    expect(of(made, 'ClusterRole', 'cob-cob-uninstall')).toMatchObject({
      metadata: { annotations: { 'helm.sh/hook': 'post-delete' } },
      rules: [{ resources: ['nodes'], verbs: ['list', 'patch'] }],
    })
    expect(await rendered({ networkPolicy: { enabled: false } })).not.toContainEqual(expect.objectContaining({ kind: 'NetworkPolicy' }))
  })
})
