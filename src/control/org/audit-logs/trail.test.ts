// Writing the audit log, with a database that takes rows late, never, or at times.
import { expect, test } from 'vitest'
import type { Log } from '../../../base/log.ts'
import { sleep } from '../../../base/wait.ts'
import { PENDING, type AuditEntry } from '../../../http/audit.ts'
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
  status: PENDING,
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

/** A trail whose rows go where `insert` puts them; `results` has what came after. */
function trailTo(insert: (rows: readonly AuditRow[]) => Promise<void>) {
  const { log, lines } = logged()
  const results: string[] = []
  const complete = async (rows: readonly AuditRow[]) => void results.push(...rows.map(({ path, status }) => `${path} ${status}`))
  return { trail: auditTrail({} as Db, log, { insert, complete }), lines, results }
}

const read = (path: string): AuditEntry => ({ ...entry(path), status: 200 })

test('a change waits for its row; what comes meanwhile goes into one statement', async () => {
  const statements: string[][] = []
  const gates: (() => void)[] = []
  const { trail, results } = trailTo(async (rows) => {
    statements.push(rows.map(({ path, status }) => `${path} ${status}`))
    await new Promise<void>((resolve) => gates.push(resolve))
  })
  const answered: string[] = []
  const begin = (path: string) => {
    const { stored, end } = trail.begin(entry(path))
    return { end, done: stored!.then(() => answered.push(path)) }
  }
  const all = [begin('1'), begin('2'), begin('3')]
  trail.note(read('read'))
  // They came at the same time. What comes now waits for the next statement.
  await new Promise(setImmediate)
  expect(statements).toEqual([['1 0', '2 0', '3 0', 'read 200']])
  all.push(begin('4'), begin('5'))
  expect(answered).toEqual([])
  all[0]!.end(201, 5)
  // Its row is not under way yet.
  all[3]!.end(204, 5)
  gates.shift()!()
  await Promise.all(all.slice(0, 3).map(({ done }) => done))
  expect(answered).toEqual(['1', '2', '3'])
  expect(statements.slice(1)).toEqual([['4 204', '5 0']])
  gates.shift()!()
  await Promise.all(all.map(({ done }) => done))
  expect(answered).toEqual(['1', '2', '3', '4', '5'])
  all[2]!.end(500, 5)
  await expect.poll(() => results, { timeout: 1_000 }).toEqual(['1 201', '3 500'])
  await trail[Symbol.asyncDispose]()
})

test('reads are written within a second, without a change', async () => {
  const written: string[] = []
  const { trail } = trailTo(async (rows) => void written.push(...rows.map(({ path }) => path)))
  for (const path of ['1', '2', '3']) trail.note(read(path))
  expect(written).toEqual([])
  await expect.poll(() => written, { timeout: 1_000 }).toEqual(['1', '2', '3'])
  await trail[Symbol.asyncDispose]()
})

test('who searches while a statement is under way waits for the results of what was answered before, too', async () => {
  const gates: (() => void)[] = []
  const { trail, results } = trailTo(() => new Promise<void>((resolve) => gates.push(resolve)))
  const begin = async (path: string) => {
    const begun = trail.begin(entry(path))
    await expect.poll(() => gates).toHaveLength(1)
    return begun
  }
  const first = await begin('first')
  gates.shift()!()
  await first.stored
  first.end(200, 1)
  await begin('second')
  trail.note(read('read'))
  const flushed = trail.flush()
  gates.shift()!()
  await expect.poll(() => gates).toHaveLength(1)
  gates.shift()!()
  await flushed
  expect(results).toContain('first 200')
  await trail[Symbol.asyncDispose]()
})

test('a stop writes what is left', async () => {
  const written: string[] = []
  const { trail, results } = trailTo(async (rows) => void written.push(...rows.map(({ path }) => path)))
  const { stored, end } = trail.begin(entry('change'))
  await stored
  end(200, 1)
  trail.note(read('read'))
  await trail[Symbol.asyncDispose]()
  expect([written, results]).toEqual([['change', 'read'], ['change 200']])
})

test('while the database is away, answers do not wait, and nothing is lost or doubled', async () => {
  const written: string[] = []
  let isAway = true
  const { trail, lines, results } = trailTo(async (rows) => {
    if (isAway) throw new Error('away')
    written.push(...rows.map(({ path, status }) => `${path} ${status}`))
  })
  const first = trail.begin(entry('first'))
  await first.stored
  expect(lines).toEqual(['the audit log cannot be written; requests go on, and their entries are written later'])
  const second = trail.begin(entry('second'))
  expect(second.stored).toBeUndefined()
  first.end(200, 1)
  second.end(200, 1)
  isAway = false
  await expect.poll(() => written.map((text) => text.split(' ')[0]), { timeout: 3_000 }).toEqual(['first', 'second'])
  // Answers wait again.
  const third = trail.begin(entry('third'))
  await third.stored
  third.end(200, 1)
  await trail[Symbol.asyncDispose]()
  // Each has its result, with its row or after it.
  const known = new Set([...written.filter((text) => text.endsWith(' 200')), ...results])
  expect(known).toEqual(new Set(['first 200', 'second 200', 'third 200']))
  expect(written).toHaveLength(3)
  expect(lines).toHaveLength(2)
})

test('a database that does not answer holds an answer for 2 s, and later ones not at all', { timeout: 10_000 }, async () => {
  const { promise: never, resolve } = Promise.withResolvers<void>()
  const { trail, lines } = trailTo(() => never)
  const began = performance.now()
  await trail.begin(entry('first')).stored
  expect(performance.now() - began).toBeGreaterThan(1_900)
  expect(lines).toHaveLength(1)
  expect(trail.begin(entry('second')).stored).toBeUndefined()
  resolve()
  await trail[Symbol.asyncDispose]()
})

test('after a stop with a database that hangs, nothing is tried again', { timeout: 20_000 }, async () => {
  const { promise: hung, reject } = Promise.withResolvers<void>()
  let tries = 0
  const { trail, lines } = trailTo(() => (tries++, hung))
  trail.begin(entry('1'))
  await new Promise(setImmediate)
  await trail[Symbol.asyncDispose]()
  expect(lines.at(-1)).toBe('entries of the audit log are lost: the database did not take them')
  reject(new Error('the pool has ended'))
  await sleep(1_500)
  expect(tries).toBe(1)
})

test('of a database that is away for long, the newest 20,000 entries are kept', async () => {
  const written: string[] = []
  let isAway = true
  const { trail, lines } = trailTo(async (rows) => {
    if (isAway) throw new Error('away')
    written.push(...rows.map(({ path }) => path))
  })
  await trail.begin(entry('0')).stored
  for (let i = 1; i <= 20_010; i++) trail.note(read(String(i)))
  isAway = false
  await trail[Symbol.asyncDispose]()
  expect([written.length, written[0], written.at(-1)]).toEqual([20_000, '11', '20010'])
  expect(lines).toContain('the audit log loses entries: the database has not taken any for too long')
})
