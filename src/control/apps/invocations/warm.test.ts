// The pool of warm sandboxes: how many it has, which runs take them, and when they end.
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { silentLog } from '../../../base/log.ts'
import { sleep, until } from '../../../base/wait.ts'
import { adoptAll, type AppSandboxes } from '../../../instances/driver.ts'
import { startLab, type Lab } from './lab.suite.ts'
import { MAX_WARM, WarmRunners } from './warm.ts'

const NOTICE_MS = 20_000

let lab: Lab
beforeAll(async () => {
  lab = await startLab()
})
afterAll(() => lab[Symbol.asyncDispose]())
afterEach(() => lab.clear())

const runs = (id: string) => until(`run ${id} to run`, NOTICE_MS, async () => (await lab.row(id)).state === 'running' && lab.row(id))
const reserved = (count: number) => until(`${count} in reserve`, NOTICE_MS, () => lab.sandboxes().length === count)
/** The driver with some methods of its sandboxes replaced. */
const withApps = (apps: Partial<AppSandboxes>) => ({ ...lab.driver, apps: { ...lab.driver.apps, ...apps } })

test('has one for each deployment in use; a run takes it, and a new one replaces it', async () => {
  const deployment = await lab.deployment()
  const host = lab.runs()
  host.prepare(deployment)
  await reserved(1)
  const [first] = lab.sandboxes()
  const row = await lab.queued({ deployment, action: 'hang' }, host)
  host.begin(row)
  expect((await runs(row.id)).runner_id).toBe(first)
  await reserved(2)
  await host.end(row.id, { state: 'failed', output: null, reason: null })
  expect(lab.sandboxes()).not.toContain(first)
})

test('has at most four per deployment, however many runs start, and none for a replaced deployment', async () => {
  const deployment = await lab.deployment()
  const host = lab.runs()
  host.prepare(deployment)
  const rows = await Promise.all(Array.from({ length: 12 }, () => lab.queued({ deployment, action: 'echo' }, host)))
  await Promise.all(rows.map((row) => host.begin(row).ended))
  await reserved(4)
  await lab.db.deleteFrom('app_versions').where('deployment_id', '=', deployment).execute()
  const next = await lab.deployment()
  host.prepare(next)
  await reserved(1)
  const row = await lab.queued({ deployment: next, action: 'echo' }, host)
  expect((await host.begin(row).ended).state).toBe('succeeded')
})

test('never gives out one that has died', async () => {
  const deployment = await lab.deployment()
  const host = lab.runs()
  for (let round = 0; round < 5; round++) {
    host.prepare(deployment)
    await reserved(1)
    const [dead] = await adoptAll(lab.driver.apps)
    await dead![Symbol.asyncDispose]()
    const row = await lab.queued({ deployment, action: 'echo', payload: '1' }, host)
    expect(await host.begin(row).ended).toMatchObject({ state: 'succeeded', output: '1' })
    expect((await lab.row(row.id)).runner_id).not.toBe(dead!.id)
    await host.endAll(deployment, 'between rounds')
  }
})

test('replaces one that died unnoticed before its run has begun', async () => {
  const deployment = await lab.deployment()
  const dying = new Set<string>()
  const host = lab.runs({
    driver: withApps({
      async start(spec, within_) {
        const instance = await lab.driver.apps.start(spec, within_)
        if (dying.size > 0) return instance
        dying.add(instance.id)
        // No part of the service learns of its end.
        return { ...instance, exited: new Promise(() => {}), [Symbol.asyncDispose]: () => instance[Symbol.asyncDispose]() }
      },
    }),
  })
  host.prepare(deployment)
  await reserved(1)
  await sleep(100) // its app has loaded
  await (await adoptAll(lab.driver.apps))[0]![Symbol.asyncDispose]()
  const row = await lab.queued({ deployment, action: 'echo', payload: '1' }, host)
  expect(await host.begin(row).ended).toMatchObject({ state: 'succeeded', output: '1' })
  expect(dying).not.toContain((await lab.row(row.id)).runner_id)
})

test('has none for an app that does not load; its runs give the reason', async () => {
  const deployment = await lab.deployment()
  lab.env = { FAKE_UNLOADED: 'Cannot find module "x"' }
  let [starts, started] = [0, 0]
  const start: AppSandboxes['start'] = async (...given) => {
    starts++
    const sandbox = await lab.driver.apps.start(...given)
    started++
    return sandbox
  }
  const host = lab.runs({ driver: withApps({ start }) })
  host.prepare(deployment)
  await until('it to be started and dropped', NOTICE_MS, () => started === 1 && lab.sandboxes().length === 0)
  const row = await lab.queued({ deployment, action: 'echo' }, host)
  expect(await host.begin(row).ended).toEqual({
    state: 'failed',
    reason: 'Cannot find module "x"',
    output: '{"error":"Cannot find module \\"x\\""}',
  })
  // No retry follows at once.
  const before = starts
  host.prepare(deployment)
  await sleep(100)
  expect(starts).toBe(before)
})

test('is limited for the machine; the least recently used one is removed', async () => {
  const host = lab.runs()
  const deployments = await Promise.all(Array.from({ length: 10 }, () => lab.deployment()))
  for (const deployment of deployments) host.prepare(deployment)
  await until('eight to be there', NOTICE_MS, () => lab.sandboxes().length === 8)
})

/** The pool alone, over sandboxes of the lab. Disposing ends it. */
const reserveOf = (settings: { maxRuns?: number; quietMs?: number } = {}) => {
  const start = async (deployment: string, _signal: AbortSignal, onBegin: () => void) => (onBegin(), lab.sandbox(deployment))
  const warm = new WarmRunners({ start, inUse: async (all) => new Set(all), maxRuns: 100, log: silentLog, ...settings })
  return Object.assign(warm, { [Symbol.asyncDispose]: () => warm.stop() })
}
/** Takes sandboxes as `count` runs that start at once. */
const ask = async (warm: WarmRunners, deployment: string, count: number) => {
  warm.fill(deployment)
  const taken = await Promise.all(Array.from({ length: count }, () => warm.take(deployment)))
  await Promise.all(taken.map(async (instance) => instance?.[Symbol.asyncDispose]()))
  warm.refill(deployment)
}

test('falls by one at a time when the demand is over', async () => {
  await using warm = reserveOf({ quietMs: 0 })
  await ask(warm, 'busy', 3)
  await until('three to be there', NOTICE_MS, () => warm.count === 3 && lab.sandboxes().length === 3)
  for (const left of [2, 1, 1]) {
    await warm.sweep()
    await until(`${left} to be left`, NOTICE_MS, () => warm.count === left && lab.sandboxes().length === left)
  }
})

test('is no larger than runs there may be at once', async () => {
  await using warm = reserveOf({ maxRuns: 2 })
  await ask(warm, 'busy', 5)
  await until('two to be there', NOTICE_MS, () => lab.sandboxes().length === 2)
  expect(warm.count).toBe(2)
})

test('gives a deployment that has none the place of one that another has to spare', async () => {
  await using warm = reserveOf()
  await ask(warm, 'first', 4)
  await ask(warm, 'second', 4)
  await until('all places to be taken', NOTICE_MS, () => lab.sandboxes().length === MAX_WARM)
  warm.fill('third')
  expect(warm.count).toBe(MAX_WARM)
  const instance = await until('its sandbox', NOTICE_MS, () => warm.take('third'))
  await instance[Symbol.asyncDispose]()
})

test('is removed when the service stops', async () => {
  const host = lab.runs()
  for (const deployment of [await lab.deployment(), await lab.deployment()]) host.prepare(deployment)
  await host.stop()
  expect(lab.sandboxes()).toEqual([])
})
