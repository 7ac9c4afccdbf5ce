// Deploys a folder and invokes one of its actions with the official SDK: `kernel deploy` and `kernel invoke` for users without the CLI.
import Kernel, { toFile } from '@onkernel/sdk'
import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { join, relative, resolve } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { ZipFile } from 'yazl'
import { answering, apiKey, serviceUrl, ServiceError } from './service.ts'

/** Folders that a build recreates or does not need. */
const LEFT_OUT = new Set(['node_modules', '.git', '.venv', '__pycache__'])
/** Default names of the file that registers the actions, as in the examples. */
const ENTRYPOINTS = ['app.ts', 'index.ts', 'app.js', 'index.js', 'main.py', 'app.py']

async function main(): Promise<void> {
  const [folder, app, action, payload] = process.argv.slice(2)
  if (folder === undefined || (app !== undefined && action === undefined)) throw new ServiceError('usage: script/deploy FOLDER [APP ACTION [PAYLOAD]]')
  const entrypoint = ENTRYPOINTS.find((name) => existsSync(join(folder, name)))
  if (entrypoint === undefined) throw new ServiceError(`${folder} has no entrypoint; it needs one of ${ENTRYPOINTS.join(', ')}`)
  const left = new AbortController()
  for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => left.abort(new ServiceError('stopped; the deployment continues')))
  const { signal } = left
  const url = serviceUrl()
  await answering(url, signal)
  const client = new Kernel({ apiKey: apiKey().key, baseURL: url, maxRetries: 0 })

  const file = await toFile(await zipOf(resolve(folder)), 'app.zip')
  const { id } = await client.deployments.create({ file, entrypoint_rel_path: entrypoint }, { signal })
  say(`deployment ${id}`)
  await built(client, id, signal)
  if (app === undefined || action === undefined) return

  const call = { app_name: app, action_name: action, version: 'latest', async: true, ...(payload !== undefined && { payload }) }
  const invocation = await client.invocations.create(call, { signal })
  say(`invocation ${invocation.id}`)
  for await (const event of await client.invocations.follow(invocation.id, {}, { signal })) {
    if (event.event === 'log') say(`  ${event.message}`)
    if (event.event === 'invocation_state' && event.invocation.status === 'succeeded') return say(event.invocation.output ?? 'null')
    if (event.event === 'invocation_state' && event.invocation.status === 'failed') throw new ServiceError(`it failed: ${event.invocation.status_reason}`)
  }
}

/** Prints a build's output until it has succeeded. @throws ServiceError when it fails */
async function built(client: Kernel, id: string, signal: AbortSignal): Promise<void> {
  for await (const event of await client.deployments.follow(id, {}, { signal })) {
    if (event.event === 'log') say(`  ${event.message}`)
    if (event.event === 'app_version_summary') say(`app ${event.app_name}, version ${event.version}: ${event.actions.map(({ name }) => name).join(', ')}`)
    if (event.event !== 'deployment_state') continue
    if (event.deployment.status === 'running') return
    if (event.deployment.status === 'failed' || event.deployment.status === 'stopped')
      throw new ServiceError(`it ${event.deployment.status}: ${event.deployment.status_reason}`)
  }
  throw new ServiceError('the events of the deployment ended before the deployment did')
}

async function zipOf(folder: string): Promise<Buffer> {
  const zip = new ZipFile()
  const add = (dir: string) => {
    for (const entry of readdirSync(dir, { withFileTypes: true })) {
      const path = join(dir, entry.name)
      if (LEFT_OUT.has(entry.name)) continue
      if (entry.isDirectory()) add(path)
      else if (entry.isFile()) zip.addBuffer(readFileSync(path), relative(folder, path))
    }
  }
  add(folder)
  zip.end()
  return buffer(zip.outputStream)
}

const say = (text: string): void => void process.stdout.write(`${text}\n`)

try {
  await main()
} catch (error) {
  process.stderr.write(`deploy: ${error instanceof Error ? error.message : String(error)}\n`)
  process.exitCode = 1
}
