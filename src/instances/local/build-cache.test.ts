// The downloads of builds, with real files: which build they count for, and when they are deleted.
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { silentLog } from '../../base/log.ts'
import { sleep, within } from '../../base/wait.ts'
import type { Exit } from '../driver.ts'
import { newId } from '../../base/ids.ts'
import { readyCacheOf } from './build-cache.ts'
import { diskOf } from './storage.ts'
import { Trash } from './trash.ts'
import { Usage } from './usage.ts'

const MIB = 1024 * 1024
/** A count begins at once. It starts two programs, on a busy machine. */
const LOOK_MS = 20_000
/** Longer than the time between two counts. */
const NEXT_LOOK_MS = 3_000
const QUOTA = { bytes: 3 * MIB, inodes: 1000 }

const OWNER = newId()

let root: string
let all: string
let cache: string
let usage: Usage
let trash: Trash
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'cob-cache-'))
  all = join(root, 'build-cache')
  cache = join(all, OWNER)
  mkdirSync(cache, { recursive: true })
  usage = new Usage(silentLog, AbortSignal.timeout(60_000))
  trash = new Trash(join(root, 'trash'), silentLog)
})
afterEach(async () => {
  await trash[Symbol.asyncDispose]()
  rmSync(root, { recursive: true, force: true })
})

const fill = (name: string, megabytes: number) => writeFileSync(join(cache, name), Buffer.alloc(megabytes * MIB, 'x'))
const readyOf = (owner: string, max = { bytes: 100 * MIB, inodes: 1000 }) => readyCacheOf(all, owner, usage, trash, silentLog, max)
async function ready(max?: { bytes: number; inodes: number }) {
  const { held, hold } = await readyOf(OWNER, max)
  hold[Symbol.dispose]()
  return held
}

/** A build that starts now. */
async function build(id: string, max?: { bytes: number; inodes: number }) {
  const sharedBefore = (await ready(max))!
  const dir = join(root, id)
  mkdirSync(diskOf(dir), { recursive: true })
  const exit = Promise.withResolvers<Exit>()
  usage.count(
    { id, dir, exited: exit.promise, live: () => [], stopFor: async (why) => exit.resolve(why) },
    { disk: QUOTA, image: false, shared: [cache], sharedBefore, memoryBytes: undefined },
  )
  return { exited: exit.promise, end: () => exit.resolve({ reason: 'over' }) }
}

test('a build is not ended for the downloads of earlier builds, but for its own', async () => {
  fill('before', 10)
  const { exited } = await build('one')
  await sleep(NEXT_LOOK_MS)
  fill('own', 4)
  const exit = await within('the build to be ended', LOOK_MS, exited)
  expect(exit).toEqual({ limit: 'disk', reason: expect.stringMatching(/^it has 4 MiB on disk; 3 are allowed$/) })
})

test('on a full disk, a build that only uses old downloads is not the first one ended', async () => {
  fill('before', 70)
  const { end } = await build('one')
  expect(await usage.endLargest()).toBeUndefined()
  end()
})

test.each([
  ['bytes', { bytes: MIB, inodes: 1000 }],
  ['files', { bytes: 100 * MIB, inodes: 1 }],
])('a cache with too many %s is deleted before a build, but not while another build runs', async (_what, max) => {
  fill('before', 2)
  expect(await ready()).toMatchObject({ inodes: 2 })
  const { exited, end } = await build('one')
  expect((await ready(max))!.bytes).toBeGreaterThanOrEqual(2 * MIB)
  expect(existsSync(join(cache, 'before'))).toBe(true)
  end()
  await exited
  expect(await ready(max)).toEqual({ bytes: 0, inodes: 0 })
  expect(existsSync(cache)).toBe(false)
})

test("owners share nothing, and together the caches have one cache's limit", async () => {
  rmSync(cache, { recursive: true })
  const [one, two] = [newId(), newId()]
  const first = await readyOf(one)
  expect(first.dir).toBe(join(all, one))
  expect(readdirSync(all)).toEqual([])
  for (const owner of [one, two]) {
    mkdirSync(join(all, owner))
    writeFileSync(join(all, owner, 'file'), Buffer.alloc(2 * MIB))
  }
  const second = await readyOf(two)
  expect(second.held!.bytes).toBeGreaterThanOrEqual(2 * MIB)
  expect(readdirSync(all).toSorted()).toEqual([one, two].toSorted())
  // Nothing is removed of a build that is about to start.
  const third = await readyOf(two, { bytes: 3 * MIB, inodes: 1000 })
  expect(readdirSync(all).toSorted()).toEqual([one, two].toSorted())
  for (const { hold } of [first, second, third]) hold[Symbol.dispose]()
  const last = await readyOf(two, { bytes: 3 * MIB, inodes: 1000 })
  expect(readdirSync(all)).toEqual([two])
  last.hold[Symbol.dispose]()
  expect((await readyOf(two, { bytes: MIB, inodes: 1000 })).held).toEqual({ bytes: 0, inodes: 0 })
  await expect(readyOf('../x')).rejects.toThrow('not the id')
})

test('a cache that does not exist yet counts as empty', async () => {
  rmSync(cache, { recursive: true })
  expect(await ready()).toEqual({ bytes: 0, inodes: 0 })
})
