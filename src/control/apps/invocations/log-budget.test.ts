// How much of a run's output is stored: computed, and in the database.
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import type { RunnerEvent } from '../../../runner/contract.ts'
import { startLab, type Lab } from './lab.suite.ts'
import { writeDown } from './run-events.ts'
import { LogBudget } from './log-budget.ts'
import { Run } from './open-run.ts'

const MIB = 1024 * 1024
const line = (bytes: number) => ({ kind: 'log' as const, line: 'x'.repeat(bytes - 100) })
const many = (count: number, bytes: number) => Array.from({ length: count }, () => line(bytes))

describe('the output of a run', () => {
  test('is kept up to its limit, then one line says so, and nothing follows', () => {
    const budget = new LogBudget(2 * MIB, 0, 0)
    const { kept, commit } = budget.take(many(300, 10_000), 0)
    commit()
    const bytes = kept.slice(0, -1).reduce((sum, event) => sum + 100 + (event.kind === 'log' ? event.line.length : 0), 0)
    expect([bytes > 1.9 * MIB, bytes <= 2 * MIB, kept.at(-1)]).toEqual([
      true,
      true,
      expect.objectContaining({ line: expect.stringContaining('2 MiB (COB_RUN_LOG_MB)') }),
    ])
    expect(budget.take(many(10, 200), 3_600_000).kept).toEqual([])
  })

  test('that comes faster than allowed has gaps, with one line for each, and is kept again when it slows down', () => {
    const budget = new LogBudget(1000 * MIB, 0, 0)
    let kept = 0
    let received = 0
    for (let second = 0; second < 20; second++) {
      const taken = budget.take(many(800, 5_000), second * 1000) // 4 MB a second
      taken.commit()
      for (const event of taken.kept) if (event.kind === 'log' && event.line.startsWith('[cob]')) received++
      kept += taken.kept.length * 5_000
    }
    expect([kept <= 16 * MIB + 20 * MIB, received > 0, received <= 20]).toEqual([true, true, true])
    expect(budget.take([line(500)], 40_000).kept).toEqual([line(500)])
  })

  test('counts empty lines, and what an earlier service has kept', () => {
    expect(new LogBudget(MIB, 0, 0).take(many(20_000, 100), 0).kept.length).toBe(Math.floor(MIB / 100) + 1)
    expect(new LogBudget(MIB, MIB, 0).take([line(500)], 0).kept).toEqual([{ kind: 'log', line: expect.stringContaining('not kept') }])
  })

  test('counts lines once if the database accepts them at the second attempt', () => {
    const budget = new LogBudget(MIB, 0, 0)
    for (let i = 0; i < 5; i++) expect(budget.take(many(100, 10_000), 0).kept.length).toBe(100)
  })
})

describe('in the database', () => {
  let lab: Lab
  beforeAll(async () => {
    lab = await startLab()
  })
  afterAll(() => lab[Symbol.asyncDispose]())
  afterEach(() => lab.clear())

  const said = (from: number, count: number, text: string): RunnerEvent[] =>
    Array.from({ length: count }, (_, i) => ({ type: 'log', seq: from + i, at: new Date().toISOString(), line: `${from + i} ${text}` }))
  const runOf = async (deployment: string) => new Run(await lab.left({ deployment, action: 'logs', state: 'running' }))
  const bytesOf = async (deployment: string) =>
    (await lab.db.selectFrom('deployments').select('log_bytes').where('id', '=', deployment).executeTakeFirstOrThrow()).log_bytes

  test('the output of an endless hostile run stays within its limit, also across a restart of the service', async () => {
    const limits = { runBytes: MIB, deploymentBytes: 1000 * MIB }
    const row = await lab.left({ deployment: await lab.deployment(), action: 'logs', state: 'running' })
    const run = new Run(row)
    for (let i = 0; i < 5; i++) await writeDown(lab.db, run, said(1 + i * 100, 100, 'x'.repeat(5_000)), limits, 'the last service')
    // A new service has no record of it in memory.
    const again = new Run(row)
    await writeDown(lab.db, again, said(501, 100, 'x'.repeat(5_000)), limits, 'the last service')
    const log = (await lab.log(row.id)).filter((text) => text !== null && text !== 'running' && text !== 'queued')
    expect(log.length).toBeLessThan(1.1 * (MIB / 5_100))
    expect(log.filter((text) => text!.startsWith('[cob]')).length).toBeLessThanOrEqual(2)
    expect((await lab.row(row.id)).runner_seq).toBe(600)
  })

  test('the log of a deployment keeps its newest lines and drops the oldest', async () => {
    const limits = { runBytes: 100 * MIB, deploymentBytes: 2 * MIB }
    const deployment = await lab.deployment()
    const [first, second] = [await runOf(deployment), await runOf(deployment)]
    await writeDown(lab.db, first, said(1, 300, 'x'.repeat(5_000)), limits, 'the last service')
    for (let i = 0; i < 3; i++) await writeDown(lab.db, second, said(1 + i * 100, 100, 'x'.repeat(5_000)), limits, 'the last service')
    expect(await bytesOf(deployment)).toBeLessThanOrEqual(2 * MIB)
    const kept = (await lab.log(second.id)).filter((text) => text?.includes('xxx'))
    expect(kept.at(-1)).toMatch(/^300 /)
    const { rows } = { rows: await lab.db.selectFrom('app_events').select('line').where('deployment_id', '=', deployment).where('kind', '=', 'log').execute() }
    expect(rows.reduce((sum, { line: text }) => sum + 100 + text!.length, 0)).toBe(await bytesOf(deployment))
  })
})
