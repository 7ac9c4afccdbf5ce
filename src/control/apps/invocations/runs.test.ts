// Runs without a service: adoption after a crash, time limits, and crashes of each part.
import { DEFAULT_PROJECT } from '../../access/projects/resolve.ts'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { sleep, until } from '../../../base/wait.ts'
import type { AppSandboxes, AppSandbox } from '../../../instances/driver.ts'
import type { Db } from '../../../store/db.ts'
import { call } from '../../../http/client.ts'
import { runner } from '../../../runner/contract.ts'
import { CreateInvocation } from './contract.ts'
import { Invocations } from './invocations.ts'
import { Overtaken, writeRest } from './run-events.ts'
import { HOST, startLab, type Lab } from './lab.suite.ts'
import { Run } from './open-run.ts'

const NOTICE_MS = 20_000
const signal = new AbortController().signal

let lab: Lab
beforeAll(async () => {
  lab = await startLab()
})
afterAll(() => lab[Symbol.asyncDispose]())
afterEach(() => lab.clear())

const ends = (id: string) => until(`run ${id} to end`, NOTICE_MS, async () => (await lab.row(id)).finished_at !== null && lab.row(id))
const runs = (id: string) => until(`run ${id} to run`, NOTICE_MS, async () => (await lab.row(id)).state === 'running' && lab.row(id))
const reserved = (count: number) => until(`${count} in reserve`, NOTICE_MS, () => lab.sandboxes().length === count)
/** Sends a sandbox its run, as the earlier service did. */
const give = (instance: AppSandbox, row: { id: string; app_name: string; action_name: string; payload: string | null }) =>
  call(
    instance.runner,
    runner.run,
    { body: { invocation: row.id, app: row.app_name, action: row.action_name, payload: row.payload, timeoutSeconds: 60 } },
    { signal },
  )
/** The driver with some methods of its sandboxes replaced. */
const withApps = (apps: Partial<AppSandboxes>) => ({ ...lab.driver, apps: { ...lab.driver.apps, ...apps } })

/** The database with replaced methods, as long as `other` returns one. */
const instead = (other: (name: string) => (() => unknown) | undefined): Db =>
  new Proxy(lab.db, {
    get(target, name) {
      const replaced = other(String(name))
      if (replaced) return replaced
      const value = Reflect.get(target, name, target) as unknown
      return typeof value === 'function' ? (value.bind(target) as unknown) : value
    },
  })

describe('after a crash of the service', () => {
  test('a run whose sandbox is alive continues: nothing is lost or repeated', async () => {
    const deployment = await lab.deployment()
    const sandbox = await lab.sandbox(deployment)
    const row = await lab.left({ deployment, action: 'logs', payload: '50', state: 'running', runner: sandbox.id })
    await give(sandbox, row)
    // The earlier service had stored the first twenty lines.
    const lines = Array.from({ length: 50 }, (_, index) => `line ${index + 1}`)
    await lab.db
      .insertInto('app_events')
      .values(
        lines.slice(0, 20).map((line) => ({ deployment_id: deployment, invocation_id: row.id, kind: 'log', line, state: null, reason: null, data: null })),
      )
      .execute()
    await lab.db.updateTable('invocations').set({ runner_seq: 20 }).where('id', '=', row.id).execute()
    await lab.runs().adopt()
    expect(await ends(row.id)).toMatchObject({ state: 'succeeded', runner_id: sandbox.id, runner_seq: 51 })
    expect(await lab.log(row.id)).toEqual(['running', ...lines, 'succeeded'])
    await reserved(0)
  })

  test('a run that was not yet sent to its sandbox is sent to it', async () => {
    const deployment = await lab.deployment()
    const sandbox = await lab.sandbox(deployment)
    const row = await lab.left({ deployment, action: 'echo', payload: '1', state: 'running', runner: sandbox.id })
    await lab.runs().adopt()
    expect(await ends(row.id)).toMatchObject({ state: 'succeeded', output: '1' })
  })

  test('a run whose sandbox is gone fails, and its browsers end', async () => {
    const deployment = await lab.deployment()
    const row = await lab.left({ deployment, action: 'hang', state: 'running' })
    await lab.runs().adopt()
    expect(await lab.row(row.id)).toMatchObject({ state: 'failed', status_reason: 'the service was restarted and the run was lost' })
    expect([lab.received.endedBrowsersOf, lab.received.retired]).toEqual([[row.id], [deployment]])
  })

  test('a queued run starts; one that waited too long fails', async () => {
    const deployment = await lab.deployment()
    const young = await lab.left({ deployment, action: 'echo', payload: '2', state: 'queued', secondsAgo: 800 })
    const old = await lab.left({ deployment, action: 'echo', state: 'queued', secondsAgo: 901 })
    await lab.runs().adopt()
    expect(await lab.row(old.id)).toMatchObject({ state: 'failed' })
    expect(await ends(young.id)).toMatchObject({ state: 'succeeded', output: '2' })
  })

  test('a run whose time has passed is ended with its sandbox', async () => {
    const deployment = await lab.deployment()
    const sandbox = await lab.sandbox(deployment)
    const row = await lab.left({ deployment, action: 'hang', state: 'running', runner: sandbox.id, secondsAgo: 901 })
    await lab.runs().adopt()
    expect(await ends(row.id)).toMatchObject({ state: 'failed', status_reason: 'timed out after 900 s' })
    await reserved(0)
  })

  test('sandboxes without a run are removed, and runs of other hosts are left alone', async () => {
    const deployment = await lab.deployment()
    const sandbox = await lab.sandbox(deployment)
    const elsewhere = await lab.left({ deployment, action: 'hang', state: 'running' })
    await lab.db.updateTable('deployments').set({ scope: 'elsewhere' }).where('id', '=', deployment).execute()
    const over = await lab.left({ deployment: await lab.deployment(), action: 'hang', state: 'failed', runner: sandbox.id })
    await lab.db.updateTable('invocations').set({ finished_at: new Date() }).where('id', '=', over.id).execute()
    await lab.runs().adopt()
    expect(lab.sandboxes()).toEqual([])
    expect([(await lab.row(elsewhere.id)).state, (await lab.row(over.id)).state]).toEqual(['running', 'failed'])
  })

  test('adopted runs count towards the limit of concurrent runs', async () => {
    const deployment = await lab.deployment()
    const sandbox = await lab.sandbox(deployment)
    await lab.left({ deployment, action: 'hang', state: 'running', runner: sandbox.id })
    const adopted = lab.runs({ maxInvocations: 2 })
    await adopted.adopt()
    expect([typeof adopted.seats.reserve(), adopted.seats.reserve()]).toEqual(['function', undefined])
  })
})

describe('the timeout of a run', () => {
  test('counts from its start; then the run fails, and its sandbox and browsers are removed', async () => {
    const deployment = await lab.deployment()
    const host = lab.runs()
    const row = await lab.queued({ deployment, action: 'hang', timeoutSeconds: 2 }, host)
    const run = host.begin(row)
    expect(await run.ended).toEqual({ state: 'failed', reason: 'timed out after 2 s', output: '{"error":"timed out after 2 s"}' })
    expect(await lab.log(row.id)).toEqual(['running', 'failed'])
    await until('its sandbox to be gone', NOTICE_MS, () => lab.sandboxes().length <= 1)
    await expect.poll(() => lab.received, { timeout: NOTICE_MS }).toEqual({ endedBrowsersOf: [row.id], retired: [deployment] })
  })

  test('is 100 s for a synchronous caller, who then gets the failed run with the reason, like any other end', async () => {
    const deployment = await lab.deployment()
    const invocations = new Invocations({ db: lab.db, notifier: lab.notifier, scope: HOST, runs: lab.runs(), maxInvocations: 9, syncLimitSeconds: 1 })
    const wanted = CreateInvocation.parse({ app_name: `app-${deployment}`, version: 'latest', action_name: 'hang' })
    const asking = { caller: 'me', project: DEFAULT_PROJECT, isRepeated: false, signal }
    const first = invocations.create(wanted, asking)
    await sleep(500)
    const again = invocations.create(wanted, { ...asking, isRepeated: true })
    const answer = await first
    expect(answer).toMatchObject({ status: 'failed', status_reason: 'timed out after 1 s' })
    expect(await again).toEqual(answer)
  })

  test('happens once: a result that arrives at the same time does not change the end', async () => {
    const deployment = await lab.deployment()
    const host = lab.runs()
    const rows = await Promise.all(Array.from({ length: 10 }, () => lab.queued({ deployment, action: 'slow', payload: '2000', timeoutSeconds: 2 }, host)))
    const outcomes = await Promise.all(rows.map((row) => host.begin(row).ended))
    for (const [index, row] of rows.entries()) {
      const log = await lab.log(row.id)
      expect([(await lab.row(row.id)).state, log]).toEqual([outcomes[index]!.state, ['running', outcomes[index]!.state]])
    }
  })
})

describe('a run that this process does not hold', () => {
  test('and no other process holds is ended by the second check', async () => {
    const deployment = await lab.deployment()
    const host = lab.runs()
    const { id } = await lab.queued({ deployment, action: 'hang' })
    // Its service inserted the row, but did not get the answer.
    await lab.db.updateTable('invocations').set({ replica: host.replica }).where('id', '=', id).execute()
    await host.sweep()
    expect((await lab.row(id)).state).toBe('queued')
    await host.sweep()
    expect(await lab.row(id)).toMatchObject({ state: 'failed', status_reason: 'the service was restarted and the run was lost' })
  })

  test('is followed to its end in the log', async () => {
    const deployment = await lab.deployment()
    const [holder, other] = [lab.runs(), lab.runs()]
    const row = await lab.queued({ deployment, action: 'slow', payload: '300' }, holder)
    const ended = other.ended(row, signal)
    holder.begin(row)
    expect(await ended).toEqual({ state: 'succeeded', output: '"done"', reason: null })
  })

  test('but whose sandbox it has: it learns of an end by another process, and removes the sandbox', async () => {
    const deployment = await lab.deployment()
    const [holder, other] = [lab.runs(), lab.runs()]
    const row = await lab.queued({ deployment, action: 'hang' }, holder)
    const run = holder.begin(row)
    await runs(row.id)
    expect(await other.end(row.id, { state: 'failed', output: null, reason: 'elsewhere' })).toBe(true)
    await holder.sweep()
    expect(await run.ended).toEqual({ state: 'failed', output: null, reason: 'elsewhere' })
    await until('its sandbox to be gone', NOTICE_MS, () => lab.sandboxes().length <= 1)
  })
})

describe('a run that another replica has taken over while this one was cut off', () => {
  const RESULT = { type: 'result', seq: 2, at: new Date().toISOString(), ok: true, output: null, reason: null } as const
  const LINE = { type: 'log', seq: 1, at: new Date().toISOString(), line: 'late' } as const

  test('goes on there when this one loses its sandbox', async () => {
    const host = lab.runs()
    const row = await lab.queued({ deployment: await lab.deployment(), action: 'hang' }, host)
    const run = host.begin(row)
    const { runner_id: sandbox } = await runs(row.id)
    await lab.db.updateTable('invocations').set({ replica: 'another' }).where('id', '=', row.id).execute()
    await (await lab.driver.apps.adopt(sandbox!))![Symbol.asyncDispose]()
    await until('it to be left', NOTICE_MS, () => run.signal.aborted)
    expect(await lab.row(row.id)).toMatchObject({ state: 'running', replica: 'another' })
  })

  test.each([
    ['lines', [LINE]],
    ['lines and its end', [LINE, RESULT]],
    ['its end', [{ ...RESULT, seq: 1 }]],
  ])('gets nothing from this one that has read %s', async (_what, events) => {
    const row = await lab.left({ deployment: await lab.deployment(), action: 'hang', state: 'running' })
    let isLeft = false
    const limits = { runBytes: 1_000_000, deploymentBytes: 1_000_000 }
    const written = writeRest(lab.db, new Run(row), events, limits, 'this one', () => void (isLeft = true))
    await expect(written).rejects.toThrow(Overtaken)
    expect([isLeft, await lab.log(row.id)]).toEqual([true, ['running']])
    expect(await lab.row(row.id)).toMatchObject({ state: 'running', runner_seq: 0 })
  })
})

describe('a run whose sandbox', () => {
  test('does not start fails with the reason', async () => {
    const deployment = await lab.deployment()
    const host = lab.runs({ driver: withApps({ start: async () => Promise.reject(new Error('no more memory')) }) })
    const row = await lab.queued({ deployment, action: 'echo' }, host)
    expect(await host.begin(row).ended).toMatchObject({ state: 'failed', reason: 'its sandbox did not start' })
    expect(await lab.log(row.id)).toEqual(['failed'])
  })

  test('is still starting when the run is ended never runs the action', async () => {
    const deployment = await lab.deployment()
    const started = Promise.withResolvers<void>()
    const go = Promise.withResolvers<void>()
    const late = go.promise.then(() => lab.driver.apps.start)
    const there = Promise.withResolvers<unknown>()
    const host = lab.runs({
      driver: withApps({
        async start(spec) {
          started.resolve()
          const start = (await late)(spec, signal)
          there.resolve(start)
          return start
        },
      }),
    })
    const row = await lab.queued({ deployment, action: 'echo' }, host)
    const run = host.begin(row)
    await started.promise
    expect(await host.end(row.id, { state: 'succeeded', output: '7', reason: null })).toBe(true)
    expect(await run.ended).toMatchObject({ state: 'succeeded', output: '7' })
    go.resolve()
    await there.promise
    await until('its sandbox to be gone', NOTICE_MS, () => lab.sandboxes().length === 0)
    expect([await lab.log(row.id), (await lab.row(row.id)).runner_id]).toEqual([['succeeded'], null])
  })

  test('sends invalid messages fails, and the next run works', async () => {
    const deployment = await lab.deployment()
    const host = lab.runs()
    const row = await lab.queued({ deployment, action: 'fail', payload: JSON.stringify('a\0b') }, host)
    expect(await host.begin(row).ended).toMatchObject({ state: 'failed', reason: 'a�b' })
    const next = await lab.queued({ deployment, action: 'echo' }, host)
    expect((await host.begin(next).ended).state).toBe('succeeded')
  })
})

describe('a service that stops', () => {
  test('fails its runs, tells waiting callers, and leaves no sandbox', async () => {
    const deployment = await lab.deployment()
    const host = lab.runs()
    const rows = await Promise.all(Array.from({ length: 3 }, () => lab.queued({ deployment, action: 'hang' }, host)))
    const started = rows.map((row) => host.begin(row))
    await Promise.all(rows.map(({ id }) => runs(id)))
    await host.stop()
    expect(await Promise.all(started.map((run) => run.ended))).toEqual(
      rows.map(() => ({ state: 'failed', reason: 'the service was stopped', output: '{"error":"the service was stopped"}' })),
    )
    expect([lab.sandboxes(), (await lab.row(rows[0]!.id)).status_reason]).toEqual([[], 'the service was stopped'])
  })

  test('while the database is unavailable removes the sandboxes anyway', async () => {
    const deployment = await lab.deployment()
    const gone = lab.db.withPlugin({
      transformQuery: () => {
        throw new Error('the database is away')
      },
      transformResult: async ({ result }) => result,
    })
    let isAway = false
    const db = instead((name) => (isAway ? (Reflect.get(gone, name) as () => unknown).bind(gone) : undefined))
    const host = lab.runs({ db })
    const row = await lab.queued({ deployment, action: 'hang' }, host)
    const run = host.begin(row)
    await runs(row.id)
    isAway = true
    await host.stop()
    expect([(await run.ended).reason, lab.sandboxes()]).toEqual(['the service was stopped', []])
    isAway = false
    await lab.runs().adopt()
    expect(await lab.row(row.id)).toMatchObject({ state: 'failed', status_reason: 'the service was restarted and the run was lost' })
  })
})

test('a run whose result cannot be stored waits for the database and loses nothing', async () => {
  const deployment = await lab.deployment()
  let failures = 0
  const flaky = instead((name) => {
    if (name !== 'transaction' || failures === 3) return undefined
    failures++
    return () => ({ execute: async () => Promise.reject(new Error('the database is away')) })
  })
  const host = lab.runs({ db: flaky })
  const row = await lab.queued({ deployment, action: 'logs', payload: '3' }, host)
  expect((await host.begin(row).ended).state).toBe('succeeded')
  expect([failures, await lab.log(row.id)]).toEqual([3, ['running', 'line 1', 'line 2', 'line 3', 'succeeded']])
})
