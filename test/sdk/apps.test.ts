// Apps through the published SDK: real packages, real sandboxes, and code that calls back for browsers.
import Kernel, { toFile } from '@onkernel/sdk'
import { createServer } from 'node:http'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { dataPaths } from '../../src/base/paths.ts'
import { until } from '../../src/base/wait.ts'
import { findLimits } from '../../src/instances/local/limits.ts'
import { hasCode, zipOf } from '../support/apps.ts'
import { startCloud, type OwnCloud } from '../support/cloud.ts'
import { conforms } from '../support/contract.ts'
import { serveSockets } from '../support/upstreams.ts'

/** The first install downloads packages. */
const BUILD_MS = 180_000
const RUN_MS = 60_000

let cloud: OwnCloud
/** A server on the machine's loopback, which apps must not reach. */
let neighbour: { port: number }
const scope = new AsyncDisposableStack()
beforeAll(async () => {
  neighbour = scope.use(await serveSockets(createServer((_request, response) => void response.end('reached'))))
  cloud = scope.use(await startCloud({ COB_APP_MEMORY_MB: '512', COB_WARM_BROWSERS: '1' }))
})
afterAll(() => scope.disposeAsync())

interface Deploy {
  files: Record<string, string>
  entrypoint?: string
  env?: Record<string, string>
  version?: string
  force?: boolean
}

/** Deploys with the SDK, and follows the build as the CLI does, until it succeeds or fails. */
async function deploy({ files, entrypoint = 'index.ts', env, version, force }: Deploy) {
  const { id } = await cloud.client.deployments.create({
    file: await toFile(await zipOf(files), 'app.zip'),
    entrypoint_rel_path: entrypoint,
    ...(env && { env_vars: env }),
    ...(version !== undefined && { version }),
    ...(force !== undefined && { force }),
  })
  const logs: string[] = []
  const order: string[] = []
  for await (const event of await cloud.client.deployments.follow(id, {}, { signal: AbortSignal.timeout(BUILD_MS) })) {
    conforms('DeploymentFollowResponse', event)
    order.push(event.event)
    if (event.event === 'log') logs.push(event.message)
    if (event.event !== 'deployment_state') continue
    const { status, status_reason: reason } = event.deployment
    if (status === 'running' || status === 'failed' || status === 'stopped') return { id, status, reason, logs, order }
  }
  throw new Error(`the stream ended without a last state:\n${logs.join('\n')}`)
}
const running = async (what: Deploy) => {
  const deployment = await deploy(what)
  expect(deployment.status, `${deployment.reason}\n${deployment.logs.slice(-20).join('\n')}`).toBe('running')
  return deployment
}
const call = (app: string, action: string, payload?: unknown, version = 'latest') =>
  cloud.client.invocations.create(
    { app_name: app, action_name: action, version, ...(payload !== undefined && { payload: JSON.stringify(payload) }) },
    { signal: AbortSignal.timeout(RUN_MS) },
  )
const start = (app: string, action: string, payload?: unknown, seconds?: number) =>
  cloud.client.invocations.create({
    app_name: app,
    action_name: action,
    version: 'latest',
    async: true,
    ...(seconds !== undefined && { async_timeout_seconds: seconds }),
    ...(payload !== undefined && { payload: JSON.stringify(payload) }),
  })
async function followed(id: string): Promise<{ logs: string[]; states: string[]; output: string | null | undefined; reason: string | null | undefined }> {
  const [logs, states]: string[][] = [[], []]
  let last: { output?: string | null; status_reason?: string | null } = {}
  for await (const event of await cloud.client.invocations.follow(id, {}, { signal: AbortSignal.timeout(RUN_MS) })) {
    conforms('InvocationFollowResponse', event)
    if (event.event === 'log') logs!.push(event.message)
    if (event.event !== 'invocation_state') continue
    states!.push(event.invocation.status)
    last = event.invocation
  }
  return { logs: logs!, states: states!, output: last.output, reason: last.status_reason }
}
/** The ids of runs whose sandbox still exists; a run's folder is removed with its sandbox. */
async function withSandbox(ids: string[]): Promise<string[]> {
  const rows = await cloud.query<{ id: string; runner_id: string }>('select id, runner_id from invocations where id = any($1) and runner_id is not null', [ids])
  if (rows.length !== ids.length) throw new Error(`of ${ids.length} runs ${rows.length} have had a sandbox`)
  const there = readdirSync(join(cloud.dataDir, 'runs'))
  return rows.filter(({ runner_id }) => there.includes(runner_id)).map(({ id }) => id)
}

const PACKAGE = (more: object = {}) => JSON.stringify({ name: 'app', private: true, dependencies: { '@onkernel/sdk': '0.84.0' }, ...more })
const SOURCE = (name: string) => `
import Kernel, { type KernelContext } from '@onkernel/sdk'
enum Word { Hello = 'hello' }
const kernel = new Kernel()
const app = kernel.app('${name}')
app.action('echo', async (ctx: KernelContext, payload?: { n: number }) => { console.log(Word.Hello, ctx.invocation_id); return payload })
app.action('browsers', async (ctx: KernelContext, payload?: unknown) => {
  const made = await kernel.browsers.create({ invocation_id: ctx.invocation_id })
  const [listed] = [(await kernel.invocations.listBrowsers(ctx.invocation_id)).browsers.map((one) => one.session_id)]
  return { made: made.session_id, listed, cdp: made.cdp_ws_url }
})
`

describe('an app in TypeScript', () => {
  test.each([
    { kind: 'of ES modules', name: 'esm', more: { type: 'module' } },
    { kind: 'of CommonJS', name: 'cjs', more: {} },
  ])('$kind is built, found, and runs', async ({ name, more }) => {
    const { id, order, logs } = await running({ files: { 'package.json': PACKAGE(more), 'index.ts': SOURCE(name) } })
    // The CLI stops reading at `running`, so the apps must come before that.
    expect(order.indexOf('app_version_summary')).toBeGreaterThan(0)
    expect(order.at(-1)).toBe('deployment_state')
    expect(logs.length).toBeGreaterThan(0)
    const [app] = await cloud.client.apps.list({ app_name: name }).then((page) => page.items)
    conforms('AppListResponse', app)
    expect(app).toMatchObject({ app_name: name, version: 'latest', deployment: id })
    expect(app!.actions.map((action) => action.name).toSorted()).toEqual(['browsers', 'echo'])
    const done = await call(name, 'echo', { n: 7 })
    conforms('InvocationCreateResponse', done)
    expect([done.status, done.output]).toEqual(['succeeded', '{"n":7}'])
    expect((await followed(done.id)).logs).toEqual([`hello ${done.id}`])
  })

  test('creates browsers with its own key, and they end with the run', async () => {
    const { status, output } = await call('esm', 'browsers', {})
    expect(status, output).toBe('succeeded')
    const { made, listed, cdp } = JSON.parse(output!) as { made: string; listed: string[]; cdp: string }
    expect(listed).toEqual([made])
    // The address works inside the sandbox.
    expect(cdp).toMatch(/^ws:\/\/127\.0\.0\.1:\d+\//)
    await until('the browser to be gone', 20_000, () =>
      cloud.client.browsers.retrieve(made).then(
        () => false,
        (error: { status: number }) => error.status === 404,
      ),
    )
  })
})

const TRIALS = `
import Kernel from '@onkernel/sdk'
import { closeSync, openSync, writeFileSync, readdirSync, readFileSync } from 'node:fs'
import { spawn } from 'node:child_process'
const app = new Kernel().app('trials')
const act = (name, work) => app.action(name, async (ctx, payload) => work(payload, ctx))
act('loop', () => { for (;;); })
act('wait', (ms) => new Promise((resolve) => setTimeout(resolve, ms, 'waited')))
act('memory', () => { const held = []; for (;;) held.push(Buffer.alloc(32 * 1024 * 1024, 1)) })
act('children', () => { spawn('sleep', ['3600'], { detached: true, stdio: 'inherit' }).unref(); spawn('sh', ['-c', 'trap "" TERM; sleep 3600'], { detached: true }).unref(); return 'left' })
act('slowly', async (count) => { for (let i = 0; i < count; i++) { console.log('tick ' + i); await new Promise((resolve) => setTimeout(resolve, 100)) } return count })
act('env', () => process.env)
act('reach', (url) => fetch(url, { signal: AbortSignal.timeout(3000) }).then((response) => response.text(), (error) => 'error ' + (error.cause?.code ?? error.name)))
act('look', () => ({ root: readdirSync('/'), home: readdirSync('/home'), data: readdirSync('/app'), processes: readdirSync('/proc').filter((name) => /^\\d+$/.test(name)).length }))
act('write', () => { try { writeFileSync('/app/code/mine', 'x'); return 'written' } catch (error) { return error.code } })
act('runner', () => {
  const [pid] = readdirSync('/proc').filter((name) => /^\\d+$/.test(name) && readFileSync('/proc/' + name + '/cmdline', 'utf8').endsWith('runner/main.ts\\0'))
  return ['mem', 'environ', 'fd/0'].map((file) => { try { closeSync(openSync('/proc/' + pid + '/' + file, 'r')); return 'open' } catch (error) { return error.code } })
})
act('version', () => readFileSync(new URL('./version.txt', import.meta.url), 'utf8'))
`
const trials = (version: string, more: Partial<Deploy> = {}): Deploy => ({
  files: { 'package.json': PACKAGE({ type: 'module' }), 'src/index.js': TRIALS, 'src/version.txt': version },
  entrypoint: 'src/index.js',
  ...more,
})

describe('a run', () => {
  beforeAll(async () => void (await running(trials('one', { env: { GREETING: 'hällo', KERNEL_API_KEY: 'mine', SECRET_WORD: 'tulip-4711' } }))), BUILD_MS)

  // An unprivileged service without delegated cgroups cannot enforce limits; `cob doctor` reports that.
  test.skipIf(findLimits('test').findings.length > 0)('that uses too much memory fails, with a useful reason', async () => {
    const greedy = await call('trials', 'memory', 1)
    expect([greedy.status, greedy.status_reason]).toEqual(['failed', expect.stringMatching(/memory/i)])
  })

  test('that never ends is ended at its timeout or when it is cancelled, and leaves no process', async () => {
    const [slow, looping, parent] = await Promise.all([start('trials', 'loop', 1, 10), start('trials', 'loop', 2), call('trials', 'children', 1)])
    expect(parent.status).toBe('succeeded')
    await until('the run to begin', 20_000, async () => (await cloud.client.invocations.retrieve(looping.id)).status === 'running')
    const cancelled = await cloud.client.invocations.update(looping.id, { status: 'failed', output: '"stopped"' })
    expect([cancelled.status, cancelled.output]).toEqual(['failed', '"stopped"'])
    await cloud.client.invocations.deleteBrowsers(looping.id)
    const { states, reason } = await followed(slow.id)
    expect([states.at(-1), reason]).toEqual(['failed', 'timed out after 10 s'])
    const ended = [slow.id, looping.id, parent.id]
    await until('their sandboxes to be gone', 20_000, async () => (await withSandbox(ended)).length === 0)
  })

  test('cannot access the process that supervises it', async () => {
    expect(JSON.parse((await call('trials', 'runner', 1)).output!)).toEqual(['EACCES', 'EACCES', 'EACCES'])
  })

  test('has its variables and its own key, and their values are stored nowhere else', async () => {
    const done = await call('trials', 'env', 1)
    const env = JSON.parse(done.output!) as Record<string, string>
    expect(env).toMatchObject({
      GREETING: 'hällo',
      SECRET_WORD: 'tulip-4711',
      KERNEL_BASE_URL: `http://127.0.0.1:${new URL(cloud.url).port}`,
      ENTRYPOINT_RELPATH: 'src/index.js',
    })
    expect(env.KERNEL_API_KEY).toMatch(/^cob_/)
    expect(env.KERNEL_API_KEY).not.toBe(cloud.key)
    const [app] = await cloud.client.apps.list({ app_name: 'trials' }).then((page) => page.items)
    expect(app!.env_vars).toMatchObject({ GREETING: '', SECRET_WORD: '' })
    expect(cloud.log()).not.toContain('tulip-4711')
    const rows = await cloud.query<{ all: string }>(`select string_agg(d::text, '') as all from deployments d`)
    expect(rows[0]!.all).not.toContain(Buffer.from('tulip-4711').toString('hex'))
    expect(rows[0]!.all).not.toContain('tulip-4711')
  })

  test('reaches the API and nothing else on the machine; it sees only its own code, and cannot change it', async () => {
    const reach = async (url: string) => JSON.parse((await call('trials', 'reach', url)).output!) as string
    expect(await reach(`${cloud.url}/health`)).toContain('ok')
    expect(await reach(`http://127.0.0.1:${neighbour.port}/`)).toMatch(/^error/)
    expect(await reach('http://169.254.169.254/')).toMatch(/^error/)
    const seen = JSON.parse((await call('trials', 'look', 1)).output!) as { root: string[]; home: string[]; data: string[]; processes: number }
    expect(seen.home).toEqual(['kernel'])
    expect(seen.data.toSorted()).toEqual(expect.arrayContaining(['code', 'manifest.json']))
    expect(seen.root).not.toEqual(expect.arrayContaining(['root', 'work']))
    expect(seen.processes).toBeLessThan(12)
    expect(JSON.parse((await call('trials', 'write', 1)).output!)).toMatch(/EROFS|EACCES/)
  })

  test('that an impatient client requests again runs once', async () => {
    const hurried = new Kernel({ apiKey: cloud.key, baseURL: cloud.url, timeout: 1_500, maxRetries: 8 })
    const done = await hurried.invocations.create({ app_name: 'trials', action_name: 'wait', version: 'latest', payload: '3000' })
    expect([done.status, done.output]).toEqual(['succeeded', '"waited"'])
    const { items } = await cloud.client.invocations.list({ app_name: 'trials', action_name: 'wait' })
    expect(items).toHaveLength(1)
  })

  test('continues with the old code while new code is deployed', async () => {
    const old = await start('trials', 'slowly', 60)
    await until('the run to begin', 20_000, async () => (await cloud.client.invocations.retrieve(old.id)).status === 'running')
    const before = (await cloud.client.apps.list({ app_name: 'trials' }).then((page) => page.items))[0]!.deployment
    await running(trials('two'))
    expect(JSON.parse((await call('trials', 'version', 1)).output!)).toBe('two')
    const { logs, states } = await followed(old.id)
    expect(states.at(-1)).toBe('succeeded')
    expect(logs).toEqual(Array.from({ length: 60 }, (_, i) => `tick ${i}`))
    await until('the old deployment to stop', 20_000, async () => (await cloud.client.deployments.retrieve(before)).status === 'stopped')
    await until('its code to be removed', 20_000, () => !hasCode(dataPaths(cloud.dataDir), before))
  })

  test('continues when the service is killed, and no line is lost or repeated', async () => {
    const { id } = await start('trials', 'slowly', 80)
    await until('some lines', 20_000, async () => (await cloud.query(`select 1 from app_events where invocation_id = $1 and kind = 'log'`, [id])).length > 5)
    await cloud.kill()
    await cloud.start()
    const { logs, states, output } = await followed(id)
    expect([states.at(-1), output]).toEqual(['succeeded', '80'])
    expect(logs).toEqual(Array.from({ length: 80 }, (_, i) => `tick ${i}`))
  })
})

test('a build during which the service was killed starts again, and succeeds', async () => {
  const files = { 'package.json': PACKAGE({ type: 'module' }), 'index.ts': SOURCE('killed') }
  const { id } = await cloud.client.deployments.create({ file: await toFile(await zipOf(files), 'app.zip'), entrypoint_rel_path: 'index.ts' })
  await until('the build to begin', 20_000, async () => (await cloud.client.deployments.retrieve(id)).status === 'in_progress')
  await cloud.kill()
  await cloud.start()
  await until('the build to end', BUILD_MS, async () => (await cloud.client.deployments.retrieve(id)).status === 'running')
  expect((await call('killed', 'echo', { n: 1 })).output).toBe('{"n":1}')
})

test('an app in Python has sync and async actions, and gets their payloads', async () => {
  const source = `
import kernel
client = kernel.Kernel()
app = client.app("snake") if hasattr(client, "app") else kernel.App("snake")

@app.action("plain")
def plain(ctx: kernel.KernelContext):
    print("in plain", ctx.invocation_id)
    return {"id": ctx.invocation_id}

@app.action("later")
async def later(ctx: kernel.KernelContext, payload):
    return {"got": payload}

@app.action("broken")
def broken(ctx: kernel.KernelContext):
    raise ValueError("broken on purpose")
`
  await running({ files: { 'requirements.txt': 'kernel\n', 'main.py': source }, entrypoint: 'main.py' })
  const plain = await call('snake', 'plain')
  expect([plain.status, plain.output]).toEqual(['succeeded', `{"id":"${plain.id}"}`])
  expect(JSON.parse((await call('snake', 'later', [1, 'ü'])).output!)).toEqual({ got: [1, 'ü'] })
  const broken = await call('snake', 'broken')
  expect([broken.status, broken.status_reason]).toEqual(['failed', 'broken on purpose'])
  expect((await followed(plain.id)).logs).toEqual([`in plain ${plain.id}`])
})

test('deleting all listed deployments until the list is empty, as the CLI does, also removes the apps', async () => {
  for (let round = 0; round < 20; round++) {
    const { items } = await cloud.client.deployments.list()
    if (items.length === 0) break
    for (const item of items) conforms('DeploymentListResponse', item)
    await Promise.all(items.map(({ id }) => cloud.client.deployments.delete(id)))
  }
  expect((await cloud.client.deployments.list()).items).toEqual([])
  expect((await cloud.client.apps.list()).items).toEqual([])
  await until('no code to be left', 20_000, () => ['apps', 'objects/code'].every((folder) => readdirSync(join(cloud.dataDir, folder)).length === 0))
})
