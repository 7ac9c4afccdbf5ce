// The local driver: the promises of every driver, and those that only sandboxed processes can show. Works as root and as another user.
import { adoptAll } from '../../src/instances/driver.ts'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, rmdirSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { readConfig } from '../../src/base/config.ts'
import { silentLog } from '../../src/base/log.ts'
import { dataPaths, type DataPaths } from '../../src/base/paths.ts'
import { descendantsOf, isAlive, nameProcess, signalProcess, type ProcessName } from '../../src/base/processes.ts'
import { until, within } from '../../src/base/wait.ts'
import type { Driver } from '../../src/instances/driver.ts'
import { driverSuite, spec } from '../../src/instances/driver.suite.ts'
import { localDriver } from '../../src/instances/local/local.ts'

/** The limit for a driver to notice that a sandbox was killed. */
const EXIT_MS = 10_000
/** The limit for the removal of an ended sandbox's files, which has the lowest priority. */
const REMOVED_MS = 60_000

const scopes = new Set<string>()
const drivers: Driver[] = []

// The data directory's name is unique, as a service's host id is.
const makeDriver = (paths: DataPaths): Driver => make(paths, {})
function make(paths: DataPaths, env: NodeJS.ProcessEnv): Driver {
  const scope = basename(paths.root)
  scopes.add(scope)
  const driver = localDriver(readConfig(env), paths, scope, silentLog)
  drivers.push(driver)
  return driver
}

/** cgroups that the drivers of this file have left behind. */
const groupsLeft = (): string[] =>
  [...scopes].flatMap((scope) =>
    groupDirs(scope).flatMap((dir) =>
      readdirSync(dir, { withFileTypes: true })
        .filter((entry) => entry.isDirectory())
        .map(({ name }) => join(dir, name)),
    ),
  )
const groupDirs = (scope: string): string[] =>
  ['memory', 'pids', 'cpu', '.'].map((controller) => join('/sys/fs/cgroup', controller, `cob-${scope}`)).filter(existsSync)

afterAll(() => {
  expect(groupsLeft()).toEqual([])
  for (const dir of [...scopes].flatMap(groupDirs)) rmdirSync(dir)
})

const leftOf = (paths: DataPaths, id: string) => [paths.instance(id)].filter(existsSync)
driverSuite('local', makeDriver, leftOf)
driverSuite('local, over TLS', (paths) => make(paths, { COB_DRIVER: 'local-tls' }), leftOf)

describe('an instance of the local driver', () => {
  const signal = new AbortController().signal
  let paths: DataPaths
  let driver: Driver
  beforeAll(() => {
    paths = dataPaths(mkdtempSync(join(tmpdir(), 'cob-driver-')))
    driver = makeDriver(paths)
  })
  afterAll(async () => {
    await Promise.all(drivers.map((made) => made[Symbol.asyncDispose]()))
    await until('what was removed to be gone', REMOVED_MS, () => readdirSync(paths.trash).length === 0)
    rmSync(paths.root, { recursive: true, force: true })
  })

  /** Every process of the instance, outermost first. */
  function processesOf(id: string): ProcessName[] {
    const { processes } = JSON.parse(readFileSync(join(paths.instance(id), 'instance.json'), 'utf8')) as { processes: ProcessName[] }
    const pids = new Set(processes.flatMap(({ pid }) => [pid, ...descendantsOf(pid)]))
    return [...pids].map(nameProcess).filter((name) => name !== undefined)
  }

  test('ends with all its processes: network, sandbox, display, browser, agent', async () => {
    const instance = await driver.start(spec(), signal)
    const processes = processesOf(instance.id)
    expect(processes.length).toBeGreaterThan(5)
    await instance[Symbol.asyncDispose]()
    expect(processes.filter(isAlive)).toEqual([])
    expect(groupsLeft()).toEqual([])
  })

  test('runs unprivileged: none of its processes is root', async () => {
    await using instance = await driver.start(spec(), signal)
    const users = processesOf(instance.id).map(({ pid }) => /^Uid:\t(\d+)\t(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))!.slice(1, 3))
    expect(users.flat()).not.toContain('0')
  })

  test('ends by itself when its sandbox is killed, and the next list removes its remains', async () => {
    await using instance = await driver.start(spec(), signal)
    const processes = processesOf(instance.id)
    signalProcess(processes[0]!, 'SIGKILL')
    expect((await within('the end of the instance', EXIT_MS, instance.exited)).reason).not.toBe('')
    expect(existsSync(paths.instance(instance.id))).toBe(true)
    expect(await adoptAll(makeDriver(paths))).toEqual([])
    expect(readdirSync(paths.instances)).toEqual([])
    expect(processes.filter(isAlive)).toEqual([])
    expect(groupsLeft()).toEqual([])
  })

  test('is listed only if it is real: directories without an instance are removed, whatever they hold', async () => {
    for (const name of ['empty', 'nonsense', 'stale', 'half']) mkdirSync(paths.instance(name))
    writeFileSync(join(paths.instance('nonsense'), 'instance.json'), '{"processes":')
    // The pid now belongs to another process, with another start time. Listing must not signal that process.
    writeFileSync(join(paths.instance('stale'), 'instance.json'), JSON.stringify({ processes: [{ pid: process.pid, ticks: '1' }] }))
    writeFileSync(join(paths.instance('half'), 'instance.json'), JSON.stringify({ processes: [] }))
    // A new directory without a service's name may be an instance that another replica is creating.
    mkdirSync(paths.instance('young'))
    const old = new Date(Date.now() - 2 * 60_000)
    utimesSync(paths.instance('empty'), old, old)
    expect(await adoptAll(driver)).toEqual([])
    expect(readdirSync(paths.instances)).toEqual(['young'])
    rmdirSync(paths.instance('young'))
  })
})
