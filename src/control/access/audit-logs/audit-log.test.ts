// Writing the audit log: the content of the buffer at each step, with a database or a disk that accepts entries late, never, or at times.
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { newId } from '../../../base/ids.ts'
import type { Log } from '../../../base/log.ts'
import { sleep, until } from '../../../base/wait.ts'
import { PENDING, type AuditEntry } from '../../../http/audit.ts'
import { scratchDir } from '../../../../test/support/scratch.ts'
import { MAX_BYTES, openAuditLog } from './audit-log.ts'
import { AT_ONCE, AuditBuffer } from './buffer.ts'
import { rowOf, type AuditRow } from './rows.ts'

let dir: string
beforeEach(() => {
  dir = scratchDir('cob-audit-')
})
afterEach(() => rmSync(dir, { recursive: true, force: true }))

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
const read = (path: string): AuditEntry => ({ ...entry(path), status: 200 })

/** A table that accepts rows as the real one does, or fails, or hangs. */
function table() {
  const rows = new Map<string, AuditRow>()
  const state = { is: 'there' as 'there' | 'away' | 'hanging', tries: 0 }
  const hung = Promise.withResolvers<never>()
  hung.promise.catch(() => {})
  return {
    state,
    hung,
    store: async (added: readonly AuditRow[]) => {
      state.tries++
      if (state.is === 'away') throw new Error('away')
      if (state.is === 'hanging') await hung.promise
      for (const row of added) if (row.status !== PENDING || !rows.has(row.event_id)) rows.set(row.event_id, { ...row })
    },
    /** Paths with their results, in the order in which they arrived. */
    get has() {
      return [...rows.values()].map(({ path, status }) => `${path} ${status}`)
    },
  }
}

function logged(): { log: Log; lines: { message: string; fields: object }[]; messages: () => string[] } {
  const lines: { message: string; fields: object }[] = []
  const say = (fields: object, message: string) => void lines.push({ message, fields })
  const log: Log = { debug() {}, info: say, warn: say, error: say, child: () => log }
  return { log, lines, messages: () => lines.map(({ message }) => message) }
}

async function start(to = table()) {
  const { log, lines, messages } = logged()
  const replica = newId()
  const auditLog = await openAuditLog({ dir, replica, store: to.store, log, signal: AbortSignal.timeout(60_000) })
  const change = (path: string, status?: number) => {
    const { stored, end } = auditLog.begin(entry(path))
    if (status !== undefined) end(status, 5)
    return { stored, end }
  }
  return { auditLog, change, to, lines, messages, [Symbol.asyncDispose]: () => auditLog[Symbol.asyncDispose]() }
}

const FILE = 'buffer.sqlite'

/** Paths and results in the buffer, of all replicas. */
function buffered(): string[] {
  using file = new DatabaseSync(join(dir, FILE), { readOnly: true })
  const rows = file.prepare('select json from rows order by id').all() as { json: string }[]
  return rows.map(({ json }) => JSON.parse(json) as AuditRow).map(({ path, status }) => `${path} ${status}`)
}

/** Adds rows of a killed service. */
function left(...rows: AuditRow[]): void {
  using buffer = AuditBuffer.open(dir, newId()).buffer
  for (const row of rows) buffer.append(row)
}
const answered = (path: string, status = 200): AuditRow => ({ ...rowOf(entry(path)), status })

/** Makes the disk refuse writes until the result is disposed. */
function fullDisk(): Disposable {
  const file = new DatabaseSync(join(dir, FILE))
  // Simulated by another process that holds the write lock.
  file.exec('begin immediate')
  return { [Symbol.dispose]: () => file.close() }
}

test('an entry is in the buffer when its request begins, its result when it is answered, and nobody else may read them', async () => {
  await using it = await start()
  const { stored, end } = it.change('change')
  expect([stored, buffered()]).toEqual([undefined, ['change 0']])
  end(201, 7)
  it.auditLog.note(read('read'))
  expect(buffered()).toEqual(['change 0', 'change 201', 'read 200'])
  expect([it.to.state.tries, ...readdirSync(dir).map((name) => statSync(join(dir, name)).mode & 0o777)]).toEqual([0, 0o600, 0o600, 0o600])
})

test('what the buffer has is in the table within a second, and then no longer in the buffer', async () => {
  await using it = await start()
  it.change('1', 201)
  const slow = it.change('2')
  it.auditLog.note(read('3'))
  await expect.poll(() => it.to.has, { timeout: 1_000 }).toEqual(['1 201', '2 0', '3 200'])
  await expect.poll(buffered, { timeout: 1_000 }).toEqual([])
  slow.end(500, 5)
  await expect.poll(() => it.to.has, { timeout: 1_000 }).toEqual(['1 201', '2 500', '3 200'])
  expect(it.to.state.tries).toBe(2)
})

test('who waits for the table finds everything that was noted before, also what came while it was written', async () => {
  await using it = await start()
  for (let i = 0; i < 20; i++) {
    it.change(`${i}`, 200)
    const others = [it.auditLog.flush(), it.auditLog.flush()]
    it.change(`${i} late`, 200)
    await it.auditLog.flush()
    expect(it.to.has).toHaveLength(2 * (i + 1))
    await Promise.all(others)
  }
})

test('a stop stores what is left, and leaves nothing behind', async () => {
  const it = await start()
  it.change('change', 200)
  it.auditLog.note(read('read'))
  await it.auditLog[Symbol.asyncDispose]()
  expect([it.to.has, buffered(), it.lines]).toEqual([['change 200', 'read 200'], [], []])
})

test('what killed services have left is in the table before the next one begins, each entry once', async () => {
  const changed = rowOf(entry('changed'))
  left(...Array.from({ length: 1_234 }, (_, i) => answered(`first ${i}`)), changed)
  left({ ...changed, status: 204 }, answered('second'))
  const to = table()
  // The service was killed after the table got the rows.
  const early = answered('third')
  left(early)
  await to.store([early])
  await using it = await start(to)
  expect(to.has).toHaveLength(1_234 + 3)
  expect(to.has).toContain('changed 204')
  expect([buffered(), it.messages()]).toEqual([[], []])
})

test.each([
  ['no file of SQLite', () => writeFileSync(join(dir, FILE), 'x'.repeat(10_000))],
  [
    'a file with broken pages',
    () => {
      left(...Array.from({ length: 1_000 }, (_, i) => answered(`${i}`)))
      const bytes = readFileSync(join(dir, FILE))
      writeFileSync(join(dir, FILE), bytes.fill(0, 8_192))
    },
  ],
])('after a loss of power, %s is put aside, and the service starts', async (_, breakIt) => {
  breakIt()
  await using it = await start()
  it.change('own', 200)
  await it.auditLog.flush()
  expect([it.to.has, it.messages()]).toEqual([['own 200'], [expect.stringContaining('is broken')]])
  expect(readdirSync(dir)).toContainEqual(expect.stringMatching(/^buffer\.sqlite\.broken-\d+$/))
})

test('a database that is away does not hold a start; what was left is stored when it is back', async () => {
  left(answered('left'))
  const to = table()
  to.state.is = 'away'
  await using it = await start(to)
  it.change('own', 200)
  expect(to.has).toEqual([])
  to.state.is = 'there'
  await expect.poll(() => to.has.toSorted(), { timeout: 10_000 }).toEqual(['left 200', 'own 200'])
  expect(it.messages()).toEqual(['the audit log cannot be stored; requests go on, and their entries are stored later', 'the audit log is stored again'])
})

test('a database that hangs holds a start for five seconds, and after a stop nothing is tried again', { timeout: 20_000 }, async () => {
  left(answered('left'))
  const to = table()
  to.state.is = 'hanging'
  const began = performance.now()
  const it = await start(to)
  expect(performance.now() - began).toBeLessThan(6_000)
  it.change('own', 200)
  await it.auditLog[Symbol.asyncDispose]()
  expect(it.messages().at(-1)).toBe('entries of the audit log stay in its buffer until the next start')
  to.hung.reject(new Error('the pool has ended'))
  await sleep(1_000)
  expect(to.state.tries).toBe(1)
  await using next = await start()
  expect(next.to.has.sort()).toEqual(['left 200', 'own 200'])
})

test('a replica stores what one that has died since has left, and two that live store each entry once', { timeout: 15_000 }, async () => {
  await using it = await start()
  await using another = await start(it.to)
  another.change('living')
  left(answered('left'))
  await expect.poll(() => it.to.has.sort(), { timeout: 10_000 }).toEqual(['left 200', 'living 0'])
  expect([it.messages(), another.messages(), buffered()]).toEqual([[], [], []])
})

test('while the database is away, no answer waits, and nothing is lost or doubled', { timeout: 20_000 }, async () => {
  await using it = await start()
  it.to.state.is = 'away'
  const paths = Array.from({ length: 30 }, (_, i) => `${i}`)
  for (const path of paths) {
    expect(it.change(path, 200).stored).toBeUndefined()
    await it.auditLog.flush()
  }
  await until('a retry', 2_000, () => it.to.state.tries > 31)
  it.to.state.is = 'there'
  await expect.poll(() => it.to.has, { timeout: 2_000 }).toEqual(paths.map((path) => `${path} 200`))
})

test('of a database that is away for long, the first 64 MiB are kept with all their results, and the others are counted', { timeout: 60_000 }, async () => {
  const it = await start()
  it.to.state.is = 'away'
  const first = Array.from({ length: 30 }, (_, i) => it.change(`first ${i}`))
  const long = 'x'.repeat(1_000)
  const note = (path: string) => it.auditLog.note({ ...read(path), userAgent: 'y'.repeat(512) })
  let made = first.length
  while (!it.messages().some((message) => message.includes('loses entries')) && made < 100_000) {
    note(`${made++} ${long}`)
    if (made % 1_000 === 0) await sleep(0)
  }
  for (let i = 0; i < 98; i++) note(long)
  it.change('one that is lost has no result either', 204)
  for (const { end } of first) end(204, 5)
  expect(made).toBeGreaterThan(20_000)
  expect(statSync(join(dir, FILE)).size).toBeLessThan(1.5 * MAX_BYTES)
  it.to.state.is = 'there'
  await until('all to be stored', 30_000, () => it.to.has.length === made - 1)
  await expect.poll(() => it.to.has.slice(0, 30)).toEqual(first.map((_, i) => `first ${i} 204`))
  expect(it.lines.at(-1)).toEqual({ message: 'the audit log is stored again', fields: { lost: 100 } })
  await it.auditLog[Symbol.asyncDispose]()
  expect(buffered()).toEqual([])
})

test('the count of a buffer is what this replica has in it: after more than a batch, and when another replica has removed some', () => {
  const [own, other] = [newId(), newId()]
  using buffer = AuditBuffer.open(dir, own).buffer
  using beside = AuditBuffer.open(dir, other).buffer
  const held = () => {
    using file = new DatabaseSync(join(dir, FILE), { readOnly: true })
    return (file.prepare('select coalesce(sum(length(json)), 0) as held from rows where replica = ?').get(own) as { held: number }).held
  }
  for (let i = 0; i < AT_ONCE + 100; i++) {
    buffer.append(answered(`own ${i} ${'x'.repeat(i)}`))
    beside.append(answered(`beside ${i}`))
  }
  expect(buffer.bytes).toBe(held())
  for (let rows = buffer.first(true); rows.length > 0; rows = buffer.first(true)) {
    buffer.remove(rows)
    expect(buffer.bytes).toBe(held())
  }
  expect([buffer.bytes, held()]).toEqual([0, 0])
  for (const path of ['one', 'two', 'three']) buffer.append(answered(path))
  beside.remove(beside.first(true).slice(0, 2))
  // The other buffer learns of it when it reads next.
  buffer.first()
  expect([buffer.bytes, buffer.bytes > 0]).toEqual([held(), true])
})

test('what the disk does not take is stored before its answer, a failing disk is logged once, and it is used again later', { timeout: 20_000 }, async () => {
  await using it = await start()
  {
    using _full = fullDisk()
    for (let i = 0; i < 3; i++) {
      const { stored, end } = it.change(`${i}`)
      end(201, 5)
      await stored
      expect(it.to.has).toHaveLength(i + 1)
    }
    it.auditLog.note(read('read'))
    await it.auditLog.flush()
    expect(it.to.has.slice(2)).toEqual(['2 201', 'read 200'])
    expect(it.messages()).toEqual(['the buffer of the audit log cannot be written; entries go to the database directly, and answers wait for that'])
  }
  await until('an entry in the buffer', 5_000, () => it.change('last', 200).stored === undefined)
  expect(buffered()).toContain('last 200')
})

test('another process that has locked the buffer and stands still holds one call a second, not each', async () => {
  await using it = await start()
  using _locked = fullDisk()
  const began = performance.now()
  const stored = Array.from({ length: 100 }, (_, i) => it.change(`${i}`, 200).stored)
  // With 20 ms each, this would take longer.
  expect(performance.now() - began).toBeLessThan(1_000)
  for (const one of stored) await one
  expect(it.to.has).toHaveLength(100)
})

test('an entry that the database refuses for its values does not hold the others, and is named in the log', async () => {
  const to = table()
  const store = async (rows: readonly AuditRow[]) => {
    if (rows.some(({ path }) => path === 'refused')) throw Object.assign(new Error('unsupported Unicode escape sequence'), { code: '22P05' })
    await to.store(rows)
  }
  await using it = await start({ ...to, store })
  for (const path of ['one', 'refused', 'two']) it.change(path, 200)
  await it.auditLog.flush()
  expect(to.has).toEqual(['one 200', 'two 200'])
  expect(buffered()).toEqual([])
  expect(it.messages()).toEqual(expect.arrayContaining(['an entry of the audit log is not stored: the database refuses its values']))
})

test('on a full disk every change is stored whole', { timeout: 60_000 }, async ({ skip }) => {
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=128k', 'cob', dir], { stdio: 'ignore' })
  } catch {
    return skip('only root may mount a small disk')
  }
  try {
    await using it = await start()
    const paths = Array.from({ length: 300 }, (_, i) => `${i} ${'x'.repeat(100)}`)
    const stored = paths.map((path) => it.change(path, 200).stored)
    expect([stored[0], stored.at(-1)].map(Boolean)).toEqual([false, true])
    for (const one of stored) await one
    await it.auditLog.flush()
    expect(it.to.has.toSorted()).toEqual(paths.map((path) => `${path} 200`).toSorted())
    expect(it.messages()).toContain('the buffer of the audit log cannot be written; entries go to the database directly, and answers wait for that')
  } finally {
    execFileSync('umount', ['--lazy', dir])
  }
})

test('neither a disk nor a database that takes anything holds an answer for more than 2 s, and later ones not at all', { timeout: 20_000 }, async () => {
  const to = table()
  const it = await start(to)
  using _full = fullDisk()
  to.state.is = 'hanging'
  const began = performance.now()
  await it.change('first').stored
  expect(performance.now() - began).toBeGreaterThan(1_900)
  expect(it.change('second').stored).toBeUndefined()
  await it.auditLog[Symbol.asyncDispose]()
  expect(it.lines.at(-1)).toMatchObject({ message: expect.stringContaining('are lost'), fields: { entries: 1 } })
})
