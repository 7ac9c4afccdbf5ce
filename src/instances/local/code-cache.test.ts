// Copies of apps' code: one fetch for all waiting callers, no removal of a copy in use, the oldest removed first.
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { newId } from '../../base/ids.ts'
import { silentLog } from '../../base/log.ts'
import { CodeUnavailable, type AppCode } from '../driver.ts'
import { APP_LINK } from './app-command.ts'
import { CodeCache } from './code-cache.ts'

const signal = new AbortController().signal
const COPY_BYTES = 1024 * 1024
const DAY_MS = 24 * 3600_000

let root: string
let dir: string
let sandboxes: string
let cache: CodeCache
let fetched: string[]
/** Holds the fetches until it settles; undefined lets them continue at once. */
let held: Promise<void> | undefined

function open(maxBytes = Infinity): CodeCache {
  const trash = { discard: async (path: string) => rmSync(path, { recursive: true, force: true }) }
  const unpack = async (id: string, code: AppCode) => {
    fetched.push(code.key)
    const folder = await made.make(id)
    await held
    await code.open(signal)
    writeFileSync(join(folder, 'file'), Buffer.alloc(COPY_BYTES))
  }
  const made: CodeCache = new CodeCache({ dir, sandboxes, maxBytes, trash, log: silentLog, unpack })
  return made
}
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'cob-copies-'))
  ;[dir, sandboxes] = [join(root, 'apps'), join(root, 'runs')]
  for (const folder of [dir, sandboxes]) mkdirSync(folder)
  fetched = []
  held = undefined
  cache = open()
})
afterEach(async () => {
  await cache[Symbol.asyncDispose]()
  rmSync(root, { recursive: true })
})

const code = (): AppCode => ({ key: `code/${newId()}.${newId()}`, bytes: 1, open: async () => Readable.from(['x']) })
const nameOf = ({ key }: AppCode): string => key.slice('code/'.length)
const isThere = (one: AppCode): boolean => existsSync(join(dir, nameOf(one)))
/** A sandbox whose code is this copy, as an earlier service may have left it. */
function sandbox(name: string): string {
  const id = newId()
  mkdirSync(join(sandboxes, id, 'spec'), { recursive: true })
  symlinkSync(join('/mnt/apps', name), join(sandboxes, id, 'spec', APP_LINK))
  return join(sandboxes, id)
}
const use = async (one: AppCode): Promise<void> => (await cache.hold(one, signal))[Symbol.dispose]()
const unusedSince = (one: AppCode, ms: number): void => utimesSync(join(dir, nameOf(one)), new Date(Date.now() - ms), new Date(Date.now() - ms))

test('callers at the same time share one fetch, and later ones need none', async () => {
  const one = code()
  await Promise.all([use(one), use(one), use(one)])
  await use(one)
  expect([fetched, readdirSync(dir)]).toEqual([[one.key], [nameOf(one)]])
})

test('a fetch that fails tells all who wait, leaves nothing, and the next caller fetches again', async () => {
  const one = code()
  const gone = { ...one, open: () => Promise.reject(new CodeUnavailable('gone')) }
  const all = await Promise.allSettled([use(gone), use(gone)])
  expect(all.map((result) => result.status === 'rejected' && result.reason instanceof CodeUnavailable)).toEqual([true, true])
  expect(readdirSync(dir)).toEqual([])
  await use(one)
  expect(isThere(one)).toBe(true)
})

test('a caller that leaves ends its wait, and not the fetch of the others', async () => {
  const { promise, resolve } = Promise.withResolvers<void>()
  held = promise
  const one = code()
  const caller = new AbortController()
  const leaving = cache.hold(one, caller.signal)
  const staying = use(one)
  caller.abort(new Error('left'))
  await expect(leaving).rejects.toThrow('left')
  resolve()
  await staying
  expect(isThere(one)).toBe(true)
})

test('what a build has made becomes the copy; a caller who comes before its end waits for that', async () => {
  const [one, build] = [code(), newId()]
  writeFileSync(join(await cache.make(build), 'file'), 'built')
  const arrived = cache.expect(one.key)
  const waiting = use(one)
  await cache.keep(build, one.key)
  arrived()
  await waiting
  expect([fetched, readdirSync(dir)]).toEqual([[], [nameOf(one)]])
})

test('a copy that is not needed any more goes at once, or when no sandbox has it as its code', async () => {
  const [free, used, taken] = [code(), code(), code()]
  for (const one of [free, used, taken]) await use(one)
  const running = sandbox(nameOf(used))
  const hold = await cache.hold(taken, signal)
  for (const one of [free, used, taken]) await cache.forget(one.key)
  expect([isThere(free), isThere(used), isThere(taken)]).toEqual([false, true, true])
  hold[Symbol.dispose]()
  rmSync(running, { recursive: true })
  await cache.evict()
  expect(readdirSync(dir)).toEqual([])
})

test('copies that are too large together go, the least recently used first, and none that a sandbox uses', async () => {
  await cache[Symbol.asyncDispose]()
  cache = open(2.5 * COPY_BYTES)
  const [oldest, old, recent, newest] = [code(), code(), code(), code()]
  for (const [one, age] of [[oldest, 4] as const, [old, 3] as const]) {
    await use(one)
    unusedSince(one, age * 60_000)
  }
  sandbox(nameOf(oldest))
  await use(recent)
  unusedSince(recent, 2 * 60_000)
  await use(newest)
  await cache.evict()
  expect([oldest, old, recent, newest].map(isThere)).toEqual([true, false, false, true])
})

test('copies that nothing has used for 30 days go', async () => {
  const one = code()
  await use(one)
  unusedSince(one, 31 * DAY_MS)
  await cache.evict()
  expect(readdirSync(dir)).toEqual([])
})

test('after a crash, what no sandbox makes any more is removed', async () => {
  const [lost, alive] = [newId(), newId()]
  for (const id of [lost, alive]) mkdirSync(cache.madeBy(id))
  mkdirSync(join(sandboxes, alive))
  await cache.tidy()
  expect(readdirSync(dir)).toHaveLength(2)
  await cache.tidy(Date.now() + 2 * 3600_000)
  expect(readdirSync(dir)).toEqual([`by-${alive}`])
})
