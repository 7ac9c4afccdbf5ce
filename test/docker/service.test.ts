// Runs the service's image as compose.yaml does. The published SDK drives sessions, which outlive the service's container. Only Postgres differs: it is behind a port of
// this process.
import Kernel from '@onkernel/sdk'
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { statSync } from 'node:fs'
import { promisify } from 'node:util'
import { chromium } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { until } from '../../src/base/wait.ts'
import { overTcp, ownPostgres } from '../support/postgres.ts'

const CALL_MS = 120_000
const HEALTHY_MS = 60_000
const PORT = 2627

// Asynchronous, because the service reaches its database through this process.
const docker = async (...args: string[]): Promise<string> => (await promisify(execFile)('docker', args, { timeout: CALL_MS })).stdout.trim()
const name = `cob-service-${process.pid}`
const scope = `service${process.pid}`
const ended = new AsyncDisposableStack()
let database: string

beforeAll(async () => {
  await docker('network', 'create', name)
  ended.defer(async () => void (await docker('network', 'rm', name)))
  await docker('volume', 'create', name)
  ended.defer(async () => void (await docker('volume', 'rm', name)))
  const { host } = await ownPostgres('service', ended)
  // script/test-docker forwards connections to the bridge's own address to this port.
  const port = await overTcp(host, ended)
  const gateway = await docker('network', 'inspect', name, '--format', '{{(index .IPAM.Config 0).Gateway}}')
  database = `postgres://cob@${gateway}:${port}/postgres`
  ended.defer(async () => {
    const left = (await docker('ps', '-aq', '--filter', `label=cob.scope=${scope}`)).split('\n').filter(Boolean)
    await docker('rm', '--force', name, ...left)
    expect(left).toEqual([])
  })
}, CALL_MS)
afterAll(() => ended.disposeAsync(), CALL_MS)

const secretKey = randomBytes(32).toString('hex')

/** Starts a container of the service, and waits until it counts as healthy. */
async function start(): Promise<Kernel> {
  const socket = new URL(process.env.DOCKER_HOST!).pathname
  const settings = {
    COB_DRIVER: 'docker',
    COB_SCOPE: scope,
    COB_REPLICAS: '1',
    COB_DOCKER_NETWORK: name,
    COB_APPS_API_URL: `http://cob-api:${PORT}`,
    COB_WARM_BROWSERS: '0',
    COB_SECRET_KEY: secretKey,
    COB_DISK_RESERVE_MB: '0',
    DATABASE_URL: database,
  }
  const options = [
    `--name ${name} --network ${name} --network-alias cob-api --read-only --tmpfs /tmp --cap-drop ALL --security-opt no-new-privileges`,
    `--volume ${name}:/data --volume ${socket}:/var/run/docker.sock --group-add ${statSync(socket).gid}`,
  ].flatMap((line) => line.split(' '))
  await docker('run', '--detach', ...options, ...Object.entries(settings).flatMap((pair) => ['--env', pair.join('=')]), 'cob-service')
  await until('the service to be healthy', HEALTHY_MS, async () => {
    const state = await docker('inspect', name, '--format', '{{.State.Status}} {{.State.Health.Status}}')
    if (state.startsWith('exited')) throw new Error(await docker('logs', name))
    return state === 'running healthy'
  })
  const address = await docker('inspect', name, '--format', `{{(index .NetworkSettings.Networks "${name}").IPAddress}}`)
  return new Kernel({ baseURL: `http://${address}:${PORT}`, apiKey: await docker('exec', name, 'cat', '/data/api-key') })
}

/** Stops the container as an upgrade does, and returns its exit code. */
async function stop(): Promise<number> {
  await docker('stop', '--time', '40', name)
  const code = Number(await docker('inspect', name, '--format', '{{.State.ExitCode}}'))
  await docker('rm', name)
  return code
}

/** Runs `change` in the page of a session, and returns the page's title. */
async function title(url: string, change = ''): Promise<string> {
  const browser = await chromium.connectOverCDP(url)
  try {
    const page = browser.contexts()[0]!.pages()[0]!
    if (change) await page.setContent(`<title>${change}</title>`)
    return await page.title()
  } finally {
    await browser.close()
  }
}

test('the service runs without rights, makes sessions, and leaves them to its next container', async () => {
  const first = await start()
  expect(await docker('exec', name, 'sh', '-c', 'id -u; grep CapEff /proc/1/status; touch /opt/x 2>&1 || true')).toMatch(
    /^10001\nCapEff:\s+0+\n.*Read-only file system$/,
  )
  const { session_id: id } = await first.browsers.create()
  const session = await first.browsers.retrieve(id)
  expect(await title(session.cdp_ws_url, 'kept')).toBe('kept')
  // A connected client must not delay the stop.
  const idle = new WebSocket(session.cdp_ws_url)
  const closed = once(idle, 'close') as Promise<[CloseEvent]>
  await once(idle, 'open')
  const screenshot = await first.browsers.computer.captureScreenshot(id)
  expect(
    Buffer.from(await screenshot.arrayBuffer())
      .subarray(1, 4)
      .toString(),
  ).toBe('PNG')

  expect(await stop()).toBe(0)
  expect((await closed)[0].code).toBe(1012)
  expect(await docker('ps', '--quiet', '--filter', `label=cob.scope=${scope}`)).not.toBe('')

  const second = await start()
  const found = await second.browsers.retrieve(id)
  expect(await title(found.cdp_ws_url)).toBe('kept')
  await second.browsers.deleteByID(id, { query: { wait: true } })
  expect(await stop()).toBe(0)
})
