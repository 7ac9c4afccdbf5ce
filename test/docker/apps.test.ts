// Builds and runs apps in containers; the published SDK deploys and calls them. The app's archive contains the SDK, because the daemon of these tests has no internet.
import { toFile } from '@onkernel/sdk'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { PACKAGE_DIR } from '../../src/base/paths.ts'
import { until } from '../../src/base/wait.ts'
import { zipOf } from '../support/apps.ts'
import { startCloud, type OwnCloud } from '../support/cloud.ts'

const BUILD_MS = 180_000
const RUN_MS = 60_000

let cloud: OwnCloud
beforeAll(async () => {
  cloud = await startCloud({ COB_DRIVER: process.env.COB_DRIVER ?? 'docker', COB_WARM_BROWSERS: '0', COB_APP_MEMORY_MB: '1024' })
})
afterAll(() => cloud[Symbol.asyncDispose]())

const SDK = join(PACKAGE_DIR, 'node_modules/@onkernel/sdk')
/** The files of the SDK that an app needs at run time, for its archive. */
const vendored = (): Record<string, Buffer> =>
  Object.fromEntries(
    readdirSync(SDK, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && /\.(m?js|json)$/.test(entry.name) && !entry.parentPath.startsWith(join(SDK, 'src')))
      .map((entry) => join(entry.parentPath, entry.name))
      .map((path) => [join('vendor/sdk', path.slice(SDK.length + 1)), readFileSync(path)]),
  )

const APP = `
import Kernel from '@onkernel/sdk'
import { readFileSync } from 'node:fs'
const app = new Kernel().app('boxed')
app.action('callback', async (context) => {
  const browsers = []
  for await (const { session_id: id } of new Kernel().browsers.list()) browsers.push(id)
  return { invocation: context.invocation_id, browsers: browsers.length, secret: process.env.SECRET }
})
app.action('walls', async (_context) => {
  const reach = (url) => fetch(url, { signal: AbortSignal.timeout(3000) }).then(() => 'reached', () => 'refused')
  const api = new URL(process.env.KERNEL_BASE_URL)
  return {
    others: await Promise.all(['http://' + api.hostname + ':1', 'http://10.0.0.1', 'http://169.254.169.254'].map(reach)),
    rights: /CapEff:\\s+0+\\n/.test(readFileSync('/proc/self/status', 'utf8')),
  }
})
app.action('fail', async (_context) => { throw new Error('as asked') })
`

async function deploy(files: Record<string, string | Buffer>): Promise<{ status: string; status_reason?: string | null }> {
  const { id } = await cloud.client.deployments.create({
    file: await toFile(await zipOf(files), 'app.zip'),
    entrypoint_rel_path: 'index.mjs',
    env_vars: { SECRET: 'of the app' },
  })
  return until('the end of a build', BUILD_MS, async () => {
    const { status, status_reason: reason } = await cloud.client.deployments.retrieve(id)
    return status !== 'queued' && status !== 'in_progress' && { status, status_reason: reason }
  })
}

async function run(action: string): Promise<{ status: string; output: unknown }> {
  const { status, output } = await cloud.client.invocations.create(
    { app_name: 'boxed', action_name: action, version: 'latest', async: false },
    { timeout: RUN_MS },
  )
  return { status, output: output === undefined || output === null ? output : JSON.parse(output) }
}

test('an app is built, called, calls the API back, and reaches nothing else of the host', async () => {
  const files = {
    'index.mjs': APP,
    'package.json': JSON.stringify({ name: 'boxed', private: true, type: 'module', dependencies: { '@onkernel/sdk': 'file:./vendor/sdk' } }),
    ...vendored(),
  }
  expect(await deploy(files)).toEqual({ status: 'running', status_reason: undefined })
  expect(await run('callback')).toMatchObject({ status: 'succeeded', output: { browsers: 0, secret: 'of the app' } })
  expect(await run('walls')).toEqual({ status: 'succeeded', output: { others: ['refused', 'refused', 'refused'], rights: true } })
  const failed = await run('fail').catch((error: unknown) => error)
  expect(JSON.stringify(failed)).toContain('as asked')
})

test('a build that fails says why', async () => {
  expect(await deploy({ 'index.mjs': 'syntax error here', 'package.json': '{"type":"module"}' })).toMatchObject({
    status: 'failed',
    status_reason: expect.stringContaining('could not be loaded'),
  })
})
