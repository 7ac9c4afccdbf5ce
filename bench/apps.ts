// Measures apps: the time of a deploy, the cost of a call, and the speed of log lines.
import Kernel, { toFile } from '@onkernel/sdk'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdtempSync, readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { PACKAGE_DIR } from '../src/base/paths.ts'
import { sleep, until } from '../src/base/wait.ts'
import { zipOf } from '../test/support/apps.ts'
import type { Bench } from './bench.ts'
import { row, timed, type Row } from './figures.ts'
import type { Service } from './sessions.ts'
import { temporary } from './temporary.ts'
import { again, turns } from './turns.ts'

const EXAMPLE = join(PACKAGE_DIR, 'examples/echo-ts')
const BUILD_MS = 180_000
/** The limit for the next sandbox to be ready with its app loaded. */
const REFILLED_MS = 30_000
/** The time in which the service notices that the spare sandbox was killed. */
const NOTICED_MS = 100
/** Calls in direct succession. The service has one spare sandbox before the first call, and knows the demand after the last. */
const IN_A_ROW = 4
const LINES = 20_000
const PRINTER = `import { Kernel } from '@onkernel/sdk'
new Kernel().app('printer').action('print', async (_ctx, count) => { for (let i = 0; i < count; i++) console.log('line ' + i); return count })`

export async function measureApps(bench: Bench, service: Service): Promise<Row[]> {
  const { cloud } = service
  const { counts, signal } = bench
  const client = new Kernel({ apiKey: cloud.key, baseURL: cloud.url, maxRetries: 0, timeout: 120_000 })
  using folder = temporary()
  const files = Object.fromEntries(readdirSync(EXAMPLE).map((name) => [name, readFileSync(join(EXAMPLE, name))]))

  async function deploy(archive: Record<string, Buffer>, entrypoint: string): Promise<number> {
    const { ms } = await timed(async () => {
      const { id } = await client.deployments.create({ file: await toFile(await zipOf(archive), 'app.zip'), entrypoint_rel_path: entrypoint })
      for await (const event of await client.deployments.follow(id, {}, { signal: AbortSignal.any([signal, AbortSignal.timeout(BUILD_MS)]) })) {
        if (event.event !== 'deployment_state') continue
        if (event.deployment.status === 'failed') throw new Error(event.deployment.status_reason ?? 'the deployment failed')
        if (event.deployment.status === 'running') return
      }
      throw new Error('the events of the deployment ended')
    })
    return ms
  }
  // The least work that any build needs, done on the host: install the packages and import the app.
  const install = async (cache: string): Promise<number> => {
    const dir = mkdtempSync(join(folder.path, 'app-'))
    cpSync(EXAMPLE, dir, { recursive: true })
    const npm = join(PACKAGE_DIR, 'node_modules/npm/bin/npm-cli.js')
    const { ms } = await timed(async () => {
      await run(dir, signal, npm, 'ci', '--ignore-scripts', '--no-audit', '--no-fund', '--cache', cache)
      await run(dir, signal, 'app.ts')
    })
    return ms
  }
  const cache = join(folder.path, 'npm')
  const first = { ours: [await deploy(files, 'app.ts')], theirs: [await install(cache)] }
  const repeated = await turns(
    bench,
    counts.deploys,
    () => deploy(files, 'app.ts'),
    () => install(cache),
  )

  const call = async (): Promise<number> => {
    const { ms, result } = await timed(() => client.invocations.create({ app_name: 'echo', action_name: 'echo', version: 'latest', payload: '{"n":1}' }))
    if (result.output !== '{"n":1}') throw new Error(`the echo was ${result.output}: ${result.status_reason}`)
    return ms
  }
  const refilled = () => until('a sandbox in reserve', REFILLED_MS, () => reserve(cloud.dataDir).length >= 1, { everyMs: 50, signal })
  const rested = async () => {
    await refilled()
    await sleep(1_000, signal)
  }
  const warm = await again(bench, counts.invocations, async () => {
    await rested()
    return call()
  })
  const inARow: number[] = []
  for (let round = 0; round < counts.invocations; round += IN_A_ROW) {
    await rested()
    for (let i = 0; i < IN_A_ROW; i++) inARow.push(await call())
  }
  // The spare sandbox is killed, and the next one comes a second later, so the call must start a sandbox.
  const host = mkdtempSync(join(folder.path, 'bare-'))
  cpSync(EXAMPLE, host, { recursive: true })
  await run(host, signal, join(PACKAGE_DIR, 'node_modules/npm/bin/npm-cli.js'), 'ci', '--ignore-scripts', '--no-audit', '--no-fund', '--cache', cache)
  const cold = await turns(
    bench,
    counts.invocations,
    async () => {
      await rested()
      for (const { pid } of reserve(cloud.dataDir)) process.kill(pid, 'SIGKILL')
      await sleep(NOTICED_MS, signal)
      return call()
    },
    async () => {
      await rested()
      return (await timed(() => run(host, signal, 'app.ts'))).ms
    },
  )

  await deploy({ 'package.json': files['package.json']!, 'index.js': Buffer.from(PRINTER) }, 'index.js')
  const follow = async (): Promise<number> => {
    const { id } = await client.invocations.create({ app_name: 'printer', action_name: 'print', version: 'latest', payload: String(LINES), async: true })
    const began = performance.now()
    let seen = 0
    for await (const event of await client.invocations.follow(id, {}, { signal })) if (event.event === 'log') seen++
    if (seen !== LINES) throw new Error(`${seen} of ${LINES} lines came`)
    return LINES / ((performance.now() - began) / 1000)
  }
  const events = await again(bench, counts.follows, follow)
  const bare = 'packages installed and imported on the host'
  return [
    row('deploy_first', 'deploy of examples/echo-ts, the first', 'ms', first.ours, { what: bare, samples: first.theirs }),
    row('deploy', 'the same again', 'ms', repeated.ours, { what: bare, samples: repeated.theirs }),
    row('invocation_warm', 'warm invocation of its echo', 'ms', warm),
    row('invocation_row', `${IN_A_ROW} of them without a pause`, 'ms', inARow),
    row('invocation_cold', 'cold invocation', 'ms', cold.ours, { what: 'Node imports the app', samples: cold.theirs }),
    row('events', `lines a second of ${LINES} through a follow stream`, '/s', events),
  ]
}

/** The outermost processes of existing sandboxes. Between calls these are the spare sandboxes. */
function reserve(dataDir: string): { pid: number }[] {
  return readdirSync(join(dataDir, 'runs')).flatMap((id) => {
    try {
      const { isReady, processes } = JSON.parse(readFileSync(join(dataDir, 'runs', id, 'instance.json'), 'utf8')) as {
        isReady: boolean
        processes: { pid: number }[]
      }
      return isReady ? processes.slice(0, 1) : []
    } catch {
      return [] // the sandbox is being created or removed
    }
  })
}

async function run(cwd: string, signal: AbortSignal, ...args: string[]): Promise<void> {
  const env = { ...process.env, KERNEL_API_KEY: 'none', NODE_OPTIONS: '--disable-warning=ExperimentalWarning' }
  const child = spawn(process.execPath, args, { cwd, env, stdio: ['ignore', 'ignore', 'inherit'], signal })
  const [code] = await once(child, 'exit')
  if (code !== 0) throw new Error(`node ${args.join(' ')} ended with ${code}`)
}
