// Kills parts of a Docker host, and checks which sessions survive. The daemon keeps containers while it is down (live-restore), as docs/docker.md requires.
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { readConfig } from '../../src/base/config.ts'
import { fixedKeys } from '../../src/base/keys.ts'
import { silentLog } from '../../src/base/log.ts'
import { makeSealer } from '../../src/base/sealed.ts'
import { until, within } from '../../src/base/wait.ts'
import { storedEndpoints } from '../../src/http/stored-endpoint.ts'
import { containerDriver } from '../../src/instances/containers/driver.ts'
import { dockerEngine } from '../../src/instances/docker/docker.ts'
import type { Driver, Instance } from '../../src/instances/driver.ts'
import { picture, spec } from '../../src/instances/driver.suite.ts'

const CALL_MS = 120_000
const SCOPE = 'kills'

const docker = (...args: string[]): string => execFileSync('docker', args, { encoding: 'utf8', timeout: CALL_MS }).trim()
const run = (): string => process.env.COB_TEST_DOCKER_RUN!
const pidOf = (file: string): number => Number(readFileSync(join(run(), file), 'utf8'))
const startDaemon = () => execFileSync('sh', [join(run(), 'start-dockerd')], { timeout: CALL_MS, stdio: 'ignore' })
const answers = () =>
  until('the daemon', CALL_MS, () => {
    try {
      return docker('version', '--format', '{{.Server.Version}}') !== ''
    } catch {
      return false
    }
  })
const left = () => docker('ps', '-aq', '--filter', `label=cob.scope=${SCOPE}`)

let driver: Driver
const start = (): Promise<Instance> => driver.start(spec(), AbortSignal.timeout(CALL_MS))
beforeAll(() => {
  const config = readConfig({ ...process.env, COB_DRIVER: 'docker' })
  const engine = dockerEngine({ config, scope: SCOPE, replica: 'test', log: silentLog })
  driver = containerDriver({ config, engine, endpoints: storedEndpoints(makeSealer(fixedKeys(Buffer.alloc(32, 1)), 'endpoints')), log: silentLog })
})
afterAll(async () => {
  await driver[Symbol.asyncDispose]()
  expect(left()).toBe('')
  docker('network', 'rm', `cob-${SCOPE}`)
})

test.each([
  ['is killed', 'SIGKILL'],
  ['is stopped', 'SIGTERM'],
] as const)('sessions go on while dockerd %s and starts again; an end is tried until it is done', async (_, signal) => {
  await using instance = await start()
  const other = await start()
  const daemon = pidOf('pid')
  process.kill(daemon, signal)
  await until('the end of the daemon', CALL_MS, () => {
    try {
      return !process.kill(daemon, 0)
    } catch {
      return true
    }
  })
  expect((await picture(instance)).status).toBe(200)
  const ending = Promise.resolve(other[Symbol.asyncDispose]()).catch((error: Error) => error.message)
  await expect(start()).rejects.toThrow()
  startDaemon()
  await answers()
  await ending
  expect((await picture(instance)).status).toBe(200)
  await using another = await start()
  expect((await picture(another)).status).toBe(200)
  await until('the one that was ended to be gone', CALL_MS, () => docker('ps', '-aq', '--filter', `label=cob.id=${other.id}`) === '', { everyMs: 500 })
})

test('a container that is killed ends its session, with a reason', async () => {
  await using instance = await start()
  docker('kill', `cob-browser-${instance.id}`)
  expect((await within('the end of the session', CALL_MS, instance.exited)).reason).toBe('the container ended with 137')
})

test('sessions end when containerd and all that it runs die; new ones come up when it is back', async () => {
  const instance = await start()
  const containerd = pidOf('exec/containerd/containerd.pid')
  const shim = Number(docker('inspect', '--format', '{{.State.Pid}}', `cob-browser-${instance.id}`))
  process.kill(containerd, 'SIGKILL')
  process.kill(shim, 'SIGKILL')
  expect((await within('the end of the session', CALL_MS, instance.exited)).reason).not.toBe('')
  await instance[Symbol.asyncDispose]()
  await until(
    'a session',
    CALL_MS,
    async () => {
      const made = await start().catch(() => undefined)
      await made?.[Symbol.asyncDispose]()
      return made !== undefined
    },
    { everyMs: 1_000 },
  )
})
