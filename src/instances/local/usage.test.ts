// The counting of use where the kernel enforces no limit, over real files and processes.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, closeSync, mkdirSync, mkdtempSync, openSync, rmSync, unlinkSync, writeFileSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { silentLog } from '../../base/log.ts'
import { nameProcess, signalProcess } from '../../base/processes.ts'
import { within } from '../../base/wait.ts'
import type { Exit } from '../driver.ts'
import { diskOf } from './storage.ts'
import { Usage, type Counted } from './usage.ts'

const MIB = 1024 * 1024
/** A count begins at once. It starts two programs, on a busy machine. */
const LOOK_MS = 20_000
const ALL: Counted = { disk: { bytes: 100 * MIB, inodes: 1000 }, image: false, shared: [], memoryBytes: undefined }

let root: string
let usage: Usage
let stop: AbortController
beforeEach(() => {
  stop = new AbortController()
  root = mkdtempSync(join(tmpdir(), 'cob-usage-'))
  usage = new Usage(silentLog, stop.signal)
})
afterEach(() => {
  stop.abort()
  rmSync(root, { recursive: true, force: true })
})

function sandbox(id: string, pids: number[] = []) {
  const dir = join(root, id)
  mkdirSync(diskOf(dir), { recursive: true })
  const exit = Promise.withResolvers<Exit>()
  const live = () => pids.map(nameProcess).filter((name) => name !== undefined)
  return { id, dir, exited: exit.promise, live, end: () => exit.resolve({ reason: 'over' }), stopFor: async (why: Exit) => exit.resolve(why) }
}
const fill = (dir: string, megabytes: number) => writeFileSync(join(dir, `f${megabytes}`), Buffer.alloc(megabytes * MIB, 'x'))
const counted = (one: ReturnType<typeof sandbox>, how: Partial<Counted>): Promise<Exit> => {
  usage.count(one, { ...ALL, ...how })
  return within('a sandbox to be ended', LOOK_MS, one.exited)
}

describe('a sandbox is ended', () => {
  test('that exceeds its bytes on disk, in its own folder and the shared ones together', async () => {
    const one = sandbox('one')
    const shared = join(root, 'shared')
    mkdirSync(shared)
    fill(diskOf(one.dir), 2)
    fill(shared, 2)
    expect(await counted(one, { disk: { bytes: 3 * MIB, inodes: 1000 }, shared: [shared] })).toEqual({
      limit: 'disk',
      reason: 'it has 4 MiB on disk; 3 are allowed',
    })
  })

  test('that exceeds its number of files, also in folders that it has made unreadable', async () => {
    const one = sandbox('one')
    const closed = join(diskOf(one.dir), 'closed')
    mkdirSync(closed)
    for (let i = 0; i < 30; i++) writeFileSync(join(closed, String(i)), '')
    chmodSync(closed, 0)
    expect(await counted(one, { disk: { bytes: MIB, inodes: 20 } })).toEqual({ limit: 'disk', reason: expect.stringContaining('20 are allowed') })
    chmodSync(closed, 0o700) // so that an unprivileged user can remove it
  })

  test('that keeps deleted files open', async () => {
    const one = sandbox('one', [process.pid])
    const file = join(diskOf(one.dir), 'gone')
    const fd = openSync(file, 'w')
    try {
      writeSync(fd, Buffer.alloc(5 * MIB, 'x'))
      unlinkSync(file)
      expect(await counted(one, { disk: { bytes: 3 * MIB, inodes: 1000 } })).toEqual({ limit: 'disk', reason: 'it has 5 MiB on disk; 3 are allowed' })
    } finally {
      closeSync(fd)
    }
  })

  test('that exceeds its memory', async () => {
    const child = spawn(process.execPath, ['-e', 'globalThis.kept = Buffer.alloc(300 << 20, 1); console.log("full"); setTimeout(() => {}, 60_000)'], {
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    try {
      await new Promise((resolve) => child.stdout!.once('data', resolve))
      expect(await counted(sandbox('one', [child.pid!]), { image: true, memoryBytes: 200 * MIB })).toEqual({
        limit: 'memory',
        reason: expect.stringContaining('200 are allowed'),
      })
    } finally {
      const name = nameProcess(child.pid!)
      if (name) signalProcess(name, 'SIGKILL')
    }
  })
})

test('a sandbox within its limits continues', async () => {
  const one = sandbox('one', [process.pid])
  fill(diskOf(one.dir), 2)
  usage.count(one, { ...ALL, memoryBytes: 64 * 1024 * MIB })
  expect(await Promise.race([one.exited, new Promise((resolve) => setTimeout(resolve, 3_000, 'goes on'))])).toBe('goes on')
  one.end()
})

test('a service that stops while its sandboxes go on counts nothing any more, and its process ends', async () => {
  mkdirSync(diskOf(root))
  const source = `
    import { Usage } from ${JSON.stringify(join(import.meta.dirname, 'usage.ts'))}
    const stop = new AbortController()
    const usage = new Usage(console, stop.signal)
    const goesOn = { id: 'one', dir: ${JSON.stringify(root)}, exited: new Promise(() => {}), live: () => [], stopFor: async () => {} }
    usage.count(goesOn, ${JSON.stringify({ ...ALL, memoryBytes: MIB })})
    setTimeout(() => stop.abort(), 500)`
  const child = spawn(process.execPath, ['--input-type=module-typescript', '-e', source], { stdio: ['ignore', 'inherit', 'inherit'] })
  try {
    expect(await within('the process to end', LOOK_MS, once(child, 'exit'))).toEqual([0, null])
  } finally {
    child.kill('SIGKILL')
  }
})

describe('when the disk of the machine is full', () => {
  test('the sandbox that holds most of it is ended, and then the next', async () => {
    const [small, large] = [sandbox('small'), sandbox('large')]
    fill(diskOf(small.dir), 70)
    fill(diskOf(large.dir), 90)
    for (const one of [small, large]) usage.count(one, ALL)
    expect(await usage.endLargest()).toBe('large')
    expect(await large.exited).toEqual({ limit: 'disk', reason: expect.stringContaining('90 MiB') })
    expect(await usage.endLargest()).toBe('small')
  })

  test('no sandbox is ended that holds little, because something else has filled it', async () => {
    const one = sandbox('one')
    fill(diskOf(one.dir), 10)
    usage.count(one, ALL)
    expect(await usage.endLargest()).toBeUndefined()
    one.end()
  })
})
