// Writing the audit log: what is in the buffer and when, with a database or a disk that takes entries late, never, or at times.
import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { newId } from '../../../base/ids.ts'
import type { Log } from '../../../base/log.ts'
import { sleep, until } from '../../../base/wait.ts'
import { PENDING, type AuditEntry } from '../../../http/audit.ts'
import { scratchDir } from '../../../../test/support/scratch.ts'
import { MAX_BYTES } from './buffer.ts'
import type { AuditRow } from './lines.ts'
import { rowOf } from './rows.ts'
import { openAuditLog } from './audit-log.ts'

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

/** A table that takes rows as the real one does, or is away (it throws), or hangs. */
function table() {
  const rows = new Map<string, AuditRow>()
  const state = { is: 'there' as 'there' | 'away' | 'hanging', tries: 0 }
  const hung = Promise.withResolvers<never>()
  hung.promise.catch(() => {})
  return {
    state,
    hung,
    store: async (added: readonly AuditRow[], results: readonly { event_id: string; status: number }[]) => {
      state.tries++
      if (state.is === 'away') throw new Error('away')
      if (state.is === 'hanging') await hung.promise
      for (const { event_id, status } of results) if (rows.has(event_id)) rows.get(event_id)!.status = status
      for (const row of added) if (!rows.has(row.event_id)) rows.set(row.event_id, { ...row })
    },
    /** Paths with their results, in the order in which they came. */
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
  return { auditLog, change, to, lines, messages, own: join(dir, `${replica}.${replica}`), [Symbol.asyncDispose]: () => auditLog[Symbol.asyncDispose]() }
}

/** Every file of the buffers. */
const files = (): string[] =>
  readdirSync(dir, { recursive: true, withFileTypes: true })
    .filter((found) => found.isFile())
    .map(({ parentPath, name }) => join(parentPath, name))
    .sort()
const buffered = (): string =>
  files()
    .map((file) => readFileSync(file, 'utf8'))
    .join('')

/** What a service that was killed has left: the folder of an owner without a socket. */
function left(...contents: string[]): void {
  const dead = newId()
  mkdirSync(join(dir, `${dead}.${dead}`))
  contents.forEach((text, index) => writeFileSync(join(dir, `${dead}.${dead}`, `0000000${index + 1}.jsonl`), text))
}
const line = (path: string, status = 200): string => `${JSON.stringify({ ...rowOf(entry(path)), status })}\n`

test('an entry is in the buffer when its request begins, its result when it is answered, and nobody else may read them', async () => {
  await using it = await start()
  const { stored, end } = it.change('change')
  expect(stored).toBeUndefined()
  expect(JSON.parse(buffered())).toMatchObject({ path: 'change', status: PENDING })
  end(201, 7)
  it.auditLog.note(read('read'))
  expect(
    buffered()
      .split('\n')
      .filter(Boolean)
      .map((text) => JSON.parse(text) as AuditRow)
      .map(({ path, status }) => `${path} ${status}`),
  ).toEqual(['change 0', 'undefined 201', 'read 200'])
  expect([it.to.state.tries, files().map((file) => statSync(file).mode & 0o777), statSync(it.own).mode & 0o777]).toEqual([0, [0o600], 0o700])
})

test('what the buffer has is in the table within a second, and then in no file', async () => {
  await using it = await start()
  it.change('1', 201)
  const slow = it.change('2')
  it.auditLog.note(read('3'))
  await expect.poll(() => it.to.has, { timeout: 1_000 }).toEqual(['1 201', '2 0', '3 200'])
  await expect.poll(files, { timeout: 1_000 }).toEqual([])
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
  expect([it.to.has, readdirSync(dir), it.lines]).toEqual([['change 200', 'read 200'], [], []])
})

test('what killed services have left is in the table before the next one begins, each entry once', async () => {
  const row = rowOf(entry('changed'))
  left(
    Array.from({ length: 1_234 }, (_, i) => line(`first ${i}`)).join('') + `${JSON.stringify(row)}\n`,
    `${JSON.stringify({ at: row.at, event_id: row.event_id, status: 204, duration_ms: 1 })}\n`,
  )
  left(line('second'))
  const to = table()
  // It was killed after the table had them.
  const early = JSON.parse(line('second')) as AuditRow
  left(JSON.stringify(early))
  await to.store([early], [])
  await using it = await start(to)
  expect(to.has).toHaveLength(1_234 + 3)
  expect(to.has).toContain('changed 204')
  expect([files(), readdirSync(dir).filter((name) => !name.endsWith('.sock')), it.messages()]).toEqual([
    [],
    [],
    Array(3).fill('entries of the audit log have been left by a service that is dead'),
  ])
})

test('a line that is not whole is left out and named by its number; all others are stored', async () => {
  const whole = line('whole')
  left(whole + line('torn').slice(0, -20), line('next') + 'x'.repeat(100_000) + '\n' + '\0\0\0\n{"status":1}\n\n' + line('\0') + line('last').trimEnd())
  await using it = await start()
  expect(it.to.has.sort()).toEqual(['last 200', 'next 200', 'whole 200'])
  expect(it.lines.filter(({ message }) => message.includes('not whole')).map(({ fields }) => fields)).toMatchObject([
    { count: 1, lines: [2] },
    { count: 5, lines: [2, 3, 4, 5, 6] },
  ])
  expect(files()).toEqual([])
})

test('a file that cannot be read stays where it is and does not hold back others', async () => {
  left(line('before'), line('not readable'), line('after'))
  const [folder] = readdirSync(dir)
  rmSync(join(dir, folder!, '00000002.jsonl'))
  mkdirSync(join(dir, folder!, '00000002.jsonl'))
  await using it = await start()
  it.change('own', 200)
  await it.auditLog.flush()
  expect(it.to.has).toEqual(['before 200', 'after 200', 'own 200'])
  expect(it.messages()).toContain('a file of the audit log cannot be read; it stays for the next start')
  expect(readdirSync(dir, { recursive: true })).toContainEqual(expect.stringMatching(/00000002.jsonl$/))
})

test('a database that is away does not hold a start; what was left is stored when it is back', async () => {
  left(line('left'))
  const to = table()
  to.state.is = 'away'
  await using it = await start(to)
  it.change('own', 200)
  expect(to.has).toEqual([])
  to.state.is = 'there'
  await expect.poll(() => to.has, { timeout: 2_000 }).toEqual(['left 200', 'own 200'])
  expect(it.messages().slice(1)).toEqual([
    'the audit log cannot be stored; requests go on, and their entries are stored later',
    'the audit log is stored again',
  ])
})

test('a database that hangs holds a start for five seconds, and after a stop nothing is tried again', { timeout: 20_000 }, async () => {
  left(line('left'))
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

test('a replica finds what one that has died since has left', { timeout: 10_000 }, async () => {
  await using it = await start()
  await using another = await start(it.to)
  another.change('living')
  left(line('left'))
  await expect.poll(() => it.to.has.sort(), { timeout: 5_000 }).toEqual(['left 200', 'living 0'])
  expect(it.messages().concat(another.messages())).toEqual(['entries of the audit log have been left by a service that is dead'])
})

test('while the database is away, no answer waits, few files are made, and nothing is lost or doubled', { timeout: 20_000 }, async () => {
  await using it = await start()
  it.to.state.is = 'away'
  const paths = Array.from({ length: 30 }, (_, i) => `${i}`)
  for (const path of paths) {
    expect(it.change(path, 200).stored).toBeUndefined()
    await it.auditLog.flush()
  }
  expect(files().length).toBeLessThanOrEqual(2)
  await until('a retry', 2_000, () => it.to.state.tries > 31)
  it.to.state.is = 'there'
  await expect.poll(() => it.to.has, { timeout: 2_000 }).toEqual(paths.map((path) => `${path} 200`))
})

test('of a database that is away for long, the first 64 MiB are kept with all their results, and the others are counted', { timeout: 60_000 }, async () => {
  const it = await start()
  it.to.state.is = 'away'
  // Together their results have more bytes than the last entry that is not kept.
  const first = Array.from({ length: 30 }, (_, i) => it.change(`first ${i}`))
  const long = 'x'.repeat(1_000)
  const userAgent = 'y'.repeat(512)
  let made = first.length
  while (!it.messages().some((message) => message.includes('loses entries')) && made < 100_000) {
    it.auditLog.note({ ...read(`${made++} ${long}`), userAgent })
    if (made % 1_000 === 0) await sleep(0)
  }
  for (let i = 0; i < 99; i++) it.auditLog.note(read(long))
  for (const { end } of first) end(204, 5)
  // At least as many as were kept in memory before there was a buffer.
  expect(made).toBeGreaterThan(20_000)
  const sizes = files().map((file) => statSync(file).size)
  expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThan(MAX_BYTES + 10_000)
  expect(sizes.length).toBeLessThan(20)
  it.to.state.is = 'there'
  await until('all to be stored', 30_000, () => it.to.has.length === made - 1)
  await expect.poll(() => it.to.has.slice(0, 30)).toEqual(first.map((_, i) => `first ${i} 204`))
  expect(it.lines.at(-1)).toEqual({ message: 'the audit log is stored again', fields: { lost: 100 } })
  await it.auditLog[Symbol.asyncDispose]()
  expect(files()).toEqual([])
})

test('what the disk does not take is stored before its answer, a failing disk is logged once, and files are used again later', async () => {
  await using it = await start()
  // No folder can be made there.
  writeFileSync(it.own, '')
  for (let i = 0; i < 5; i++) {
    const { stored, end } = it.change(`${i}`)
    end(201, 5)
    await stored
    expect(it.to.has).toHaveLength(i + 1)
  }
  it.auditLog.note(read('read'))
  await it.auditLog.flush()
  expect(it.to.has.slice(4)).toEqual(['4 201', 'read 200'])
  expect(it.messages()).toEqual(['the buffer of the audit log cannot be written; entries go to the database directly, and answers wait for that'])
  rmSync(it.own)
  expect(it.change('last', 200).stored).toBeUndefined()
  expect(buffered()).toContain('last')
})

test('on a full disk every change is stored whole', async ({ skip }) => {
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=16k', 'cob', dir], { stdio: 'ignore' })
  } catch {
    return skip('only root may mount a small disk')
  }
  try {
    await using it = await start()
    const paths = Array.from({ length: 100 }, (_, i) => `${i} ${'x'.repeat(100)}`)
    const stored = paths.map((path) => it.change(path, 200).stored)
    // Until it was full, nobody had to wait.
    expect(stored.slice(0, 10).concat(stored.slice(-10)).map(Boolean)).toEqual([...Array(10).fill(false), ...Array(10).fill(true)])
    for (const one of stored) await one
    await it.auditLog.flush()
    expect(it.to.has).toEqual(paths.map((path) => `${path} 200`))
    expect(it.messages()).toContain('the buffer of the audit log cannot be written; entries go to the database directly, and answers wait for that')
  } finally {
    execFileSync('umount', ['--lazy', dir])
  }
})

test('neither a disk nor a database that takes anything holds an answer for more than 2 s, and later ones not at all', { timeout: 10_000 }, async () => {
  const to = table()
  const it = await start(to)
  writeFileSync(it.own, '')
  to.state.is = 'hanging'
  const began = performance.now()
  await it.change('first').stored
  expect(performance.now() - began).toBeGreaterThan(1_900)
  expect(it.change('second').stored).toBeUndefined()
  rmSync(it.own)
  await it.auditLog[Symbol.asyncDispose]()
  expect(it.lines.at(-1)).toMatchObject({ message: expect.stringContaining('are lost'), fields: { entries: 2 } })
})
