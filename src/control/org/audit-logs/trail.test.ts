// Writing the audit log, with a database that takes rows late, never, or at times.
import { expect, test } from 'vitest'
import type { Log } from '../../../base/log.ts'
import type { AuditEntry } from '../../../http/audit.ts'
import type { Db } from '../../../store/db.ts'
import type { AuditRow } from './rows.ts'
import { auditTrail } from './trail.ts'

const entry = (path: string): AuditEntry => ({
  at: new Date(),
  by: { kind: 'session', id: 's' },
  project: undefined,
  method: 'POST',
  path,
  route: '/',
  status: 200,
  durationMs: 1,
  domain: '',
  clientIp: '',
  userAgent: '',
})

function logged(): { log: Log; lines: string[] } {
  const lines: string[] = []
  const say = (_fields: object, message: string) => void lines.push(message)
  const log: Log = { debug() {}, info: say, warn: say, error: say, child: () => log }
  return { log, lines }
}

/** A trail whose rows go where `insert` puts them. */
function trailTo(insert: (rows: readonly AuditRow[]) => Promise<void>) {
  const { log, lines } = logged()
  return { trail: auditTrail({} as Db, log, insert), lines }
}

test('a change waits for its row; what comes meanwhile goes into one statement', async () => {
  const statements: string[][] = []
  const gates: (() => void)[] = []
  const { trail } = trailTo(async (rows) => {
    statements.push(rows.map(({ path }) => path))
    await new Promise<void>((resolve) => gates.push(resolve))
  })
  const answered: string[] = []
  const change = (path: string) => trail.note(entry(path), true)!.then(() => answered.push(path))
  const all = [change('1'), change('2'), change('3')]
  expect(trail.note(entry('read'), false)).toBeUndefined()
  await Promise.resolve()
  expect(statements).toEqual([['1']])
  expect(answered).toEqual([])
  gates.shift()!()
  await all[0]
  expect(answered).toEqual(['1'])
  expect(statements).toEqual([['1'], ['2', '3', 'read']])
  gates.shift()!()
  await Promise.all(all)
  expect(answered).toEqual(['1', '2', '3'])
  await trail[Symbol.asyncDispose]()
})

test('reads are written within a second, without a change', async () => {
  const written: string[] = []
  const { trail } = trailTo(async (rows) => void written.push(...rows.map(({ path }) => path)))
  for (const path of ['1', '2', '3']) void trail.note(entry(path), false)
  expect(written).toEqual([])
  await expect.poll(() => written, { timeout: 1_000 }).toEqual(['1', '2', '3'])
  await trail[Symbol.asyncDispose]()
})

test('a stop writes what is left', async () => {
  const written: string[] = []
  const { trail } = trailTo(async (rows) => void written.push(...rows.map(({ path }) => path)))
  void trail.note(entry('read'), false)
  await trail[Symbol.asyncDispose]()
  expect(written).toEqual(['read'])
})

test('while the database is away, answers do not wait, and nothing is lost or doubled', async () => {
  const written: string[] = []
  let isAway = true
  const { trail, lines } = trailTo(async (rows) => {
    if (isAway) throw new Error('away')
    written.push(...rows.map(({ path }) => path))
  })
  await trail.note(entry('first'), true)
  expect(lines).toEqual(['the audit log cannot be written; requests go on, and their entries are written later'])
  expect(trail.note(entry('second'), true)).toBeUndefined()
  isAway = false
  await expect.poll(() => written, { timeout: 3_000 }).toEqual(['first', 'second'])
  // Answers wait again.
  await trail.note(entry('third'), true)
  expect(written).toEqual(['first', 'second', 'third'])
  expect(lines).toHaveLength(2)
  await trail[Symbol.asyncDispose]()
})

test('a database that does not answer holds an answer for 2 s, and later ones not at all', { timeout: 10_000 }, async () => {
  const { promise: never, resolve } = Promise.withResolvers<void>()
  const { trail, lines } = trailTo(() => never)
  const began = performance.now()
  await trail.note(entry('first'), true)
  expect(performance.now() - began).toBeGreaterThan(1_900)
  expect(lines).toHaveLength(1)
  expect(trail.note(entry('second'), true)).toBeUndefined()
  resolve()
  await trail[Symbol.asyncDispose]()
})

test('of a database that is away for long, the newest 20,000 entries are kept', async () => {
  const written: string[] = []
  let isAway = true
  const { trail, lines } = trailTo(async (rows) => {
    if (isAway) throw new Error('away')
    written.push(...rows.map(({ path }) => path))
  })
  await trail.note(entry('0'), true)
  for (let i = 1; i <= 20_010; i++) void trail.note(entry(String(i)), false)
  isAway = false
  await trail[Symbol.asyncDispose]()
  expect([written.length, written[0], written.at(-1)]).toEqual([20_000, '11', '20010'])
  expect(lines).toContain('the audit log loses entries: the database has not taken any for too long')
})
