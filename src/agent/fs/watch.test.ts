// Watches of real directories: every change is reported, and so are lost events.
import fc from 'fast-check'
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { appendFileSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { Readable } from 'node:stream'
import { afterEach, describe, expect, test } from 'vitest'
import { tempDir, treeOf } from '../../../test/support/trees.ts'
import { silentLog } from '../../base/log.ts'
import { childrenOf } from '../../base/processes.ts'
import type { WatchEvent } from './contract.ts'
import { writeFile } from './stage.ts'
import { MAX_WATCHES, Watches } from './watches.ts'

const signal = new AbortController().signal
let watches = new Watches(silentLog)
afterEach(async () => {
  await watches[Symbol.asyncDispose]()
  watches = new Watches(silentLog)
  await expect.poll(helpers).toEqual([])
})

const helpers = (): number[] => childrenOf(process.pid).filter((pid) => readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('inotify.pl'))

const say = (event: WatchEvent, root: string): string =>
  'event' in event ? event.error.code : `${event.type} ${event.path.slice(root.length + 1)}${event.is_dir ? '/' : ''}`

/** Watches a folder; `told` are its events so far, with paths relative to it. */
async function watch(root: string, recursive: boolean) {
  const id = await watches.start(root, recursive, signal)
  const received: string[] = []
  const events: WatchEvent[] = []
  const ended = (async () => {
    for await (const event of watches.events(id, signal)) {
      received.push(say(event, root))
      events.push(event)
    }
  })()
  return { id, received, events, ended }
}

/** Makes a change and waits until its event arrives. */
async function settled({ received }: { received: string[] }, root: string): Promise<string[]> {
  const name = `end-${Math.random()}`
  // Events of a directory's first scan may come a moment after those of later changes.
  for (let before = -1; before !== received.length; await new Promise((resolve) => setTimeout(resolve, 60))) before = received.length
  // On a busy machine they may even come after a marker: then another marker is needed.
  let markers = 0
  const isMarker = (line: string | undefined) => line?.startsWith(`CREATE ${name}-`) === true
  await expect
    .poll(
      () => {
        if (markers === 0 || (received.some(isMarker) && !isMarker(received.at(-1)))) mkdirSync(join(root, `${name}-${markers++}`))
        return received.filter(isMarker).length === markers && isMarker(received.at(-1))
      },
      { timeout: 10_000 },
    )
    .toBe(true)
  return received.splice(0).filter((line) => !isMarker(line))
}

describe('a watch', () => {
  test('reports created, written, renamed and deleted files, with their folder', async () => {
    using dir = tempDir()
    const watched = await watch(dir.path, false)
    writeFileSync(join(dir.path, 'a'), 'x')
    appendFileSync(join(dir.path, 'a'), 'y')
    renameSync(join(dir.path, 'a'), join(dir.path, 'b'))
    mkdirSync(join(dir.path, 'd'))
    writeFileSync(join(dir.path, 'd/inside'), '')
    symlinkSync('b', join(dir.path, 'l'))
    rmSync(join(dir.path, 'b'))
    rmSync(join(dir.path, 'd'), { recursive: true })
    const first = (await settled(watched, dir.path)).filter((line, index, all) => line !== all[index - 1])
    expect(first).toEqual(['CREATE a', 'WRITE a', 'RENAME a', 'CREATE b', 'CREATE d/', 'CREATE l', 'DELETE b', 'DELETE d/'])
    expect(watched.events[0]).toEqual({ type: 'CREATE', path: join(dir.path, 'a'), name: 'a', is_dir: false })
  })

  test('reports nothing for changed permissions and for reads', async () => {
    using dir = tempDir()
    writeFileSync(join(dir.path, 'a'), 'x')
    const watched = await watch(dir.path, true)
    execFileSync('chmod', ['600', join(dir.path, 'a')])
    execFileSync('cat', [join(dir.path, 'a')])
    readdirSync(dir.path)
    expect(await settled(watched, dir.path)).toEqual([])
  })

  test('misses nothing in folders that are created, filled and renamed very fast', async () => {
    using dir = tempDir()
    const watched = await watch(dir.path, true)
    for (let i = 0; i < 20; i++) {
      mkdirSync(join(dir.path, `r${i}/a/b/c`), { recursive: true })
      writeFileSync(join(dir.path, `r${i}/a/b/c/f`), 'x')
      if (i % 2) renameSync(join(dir.path, `r${i}`), join(dir.path, `s${i}`))
    }
    const received = await settled(watched, dir.path)
    for (let i = 0; i < 20; i++) {
      const root = i % 2 ? `s${i}` : `r${i}`
      for (const path of ['/', '/a/', '/a/b/', '/a/b/c/', '/a/b/c/f'])
        expect(
          received.filter((line) => line === `CREATE ${root}${path}`),
          root + path,
        ).toHaveLength(1)
    }
    writeFileSync(join(dir.path, 's3/a/b/c/later'), '')
    expect(await settled(watched, dir.path)).toEqual(['CREATE s3/a/b/c/later'])
  })

  test('follows folders that move: within it, out of it, and into it with their content', async () => {
    using dir = tempDir()
    using outside = tempDir()
    const at = (name: string) => join(dir.path, name)
    mkdirSync(at('a/b'), { recursive: true })
    mkdirSync(at('c'))
    mkdirSync(join(outside.path, 'in/deep'), { recursive: true })
    writeFileSync(join(outside.path, 'in/deep/f'), '')
    const watched = await watch(dir.path, true)
    renameSync(at('a'), at('c/a'))
    writeFileSync(at('c/a/b/f'), '')
    expect(await settled(watched, dir.path)).toEqual(['RENAME a/', 'CREATE c/a/', 'CREATE c/a/b/f', 'CREATE c/a/b/'])
    renameSync(at('c'), join(outside.path, 'c'))
    expect(await settled(watched, dir.path)).toEqual(['RENAME c/'])
    writeFileSync(join(outside.path, 'c/a/b/g'), '')
    expect(await settled(watched, dir.path)).toEqual([])
    renameSync(join(outside.path, 'in'), at('in'))
    expect(await settled(watched, dir.path)).toEqual(['CREATE in/', 'CREATE in/deep/', 'CREATE in/deep/f'])
    writeFileSync(at('in/deep/f'), 'x')
    expect((await settled(watched, dir.path))[0]).toBe('WRITE in/deep/f')
  })

  test('reports a file written by this API once it is complete, as created and written, and nothing of its temporary file', async () => {
    using dir = tempDir()
    const watched = await watch(dir.path, true)
    await writeFile(join(dir.path, 'd/f'), undefined, Readable.from([Buffer.alloc(1_000_000)]), signal)
    // Both steps could happen before the new folder is watched: they would then look like one existing file.
    await expect.poll(() => watched.received, { timeout: 10_000 }).toContain('WRITE d/f')
    await writeFile(join(dir.path, 'd/f'), undefined, Readable.from([Buffer.alloc(10)]), signal)
    expect(await settled(watched, dir.path)).toEqual(['CREATE d/', 'CREATE d/f', 'WRITE d/f', 'CREATE d/f', 'WRITE d/f'])
  })

  test('follows a folder that is renamed thousands of times', { timeout: 60_000 }, async () => {
    using dir = tempDir()
    const at = (path: string) => join(dir.path, path)
    mkdirSync(at('a/inner'), { recursive: true })
    const watched = await watch(dir.path, true)
    for (let round = 0; round < 3_000; round++) {
      renameSync(at('a'), at('b'))
      renameSync(at('b'), at('a'))
    }
    const received = await settled(watched, dir.path)
    expect(received.filter((line) => line === 'RENAME b/')).toHaveLength(3_000)
    writeFileSync(at('a/inner/f'), 'x')
    expect(await settled(watched, dir.path)).toEqual(['CREATE a/inner/f', 'WRITE a/inner/f'])
  })

  test('reports that events were lost in the kernel, and misses no later ones, also in new folders', { timeout: 60_000 }, async () => {
    using dir = tempDir()
    const watched = await watch(dir.path, true)
    const [helper] = helpers()
    process.kill(helper!, 'SIGSTOP')
    for (let i = 0; i < 17_000; i++) symlinkSync('x', join(dir.path, `f${i}`))
    mkdirSync(join(dir.path, 'unheard/of'), { recursive: true })
    rmSync(join(dir.path, 'f0'))
    process.kill(helper!, 'SIGCONT')
    await expect.poll(() => watched.received.filter((line) => line === 'overflow').length, { timeout: 20_000 }).toBeGreaterThan(0)
    // It may be created before its folder is watched. Then another gap event comes, and a client that lists again finds it.
    const before = watched.received.length
    writeFileSync(join(dir.path, 'unheard/of/f'), '')
    const hasWord = () => watched.received.slice(before).some((line) => line === 'overflow' || line === 'CREATE unheard/of/f')
    await expect.poll(hasWord, { timeout: 20_000 }).toBe(true)
    let count = 0
    const isFollowed = () => {
      writeFileSync(join(dir.path, `unheard/of/g${count++}`), '')
      return watched.received.some((line) => line.startsWith('CREATE unheard/of/g'))
    }
    await expect.poll(isFollowed, { timeout: 20_000 }).toBe(true)
  })

  test.each([
    ['deleted', false, (path: string) => rmSync(path, { recursive: true }), 'DELETE'],
    ['deleted', true, (path: string) => rmSync(path, { recursive: true }), 'DELETE'],
    ['moved away', true, (path: string) => renameSync(path, `${path}-gone`), 'RENAME'],
  ] as const)('ends when its folder is %s (recursive: %s), and is kept until a reader has read the end', async (_, recursive, remove, type) => {
    using dir = tempDir()
    const root = join(dir.path, 'root')
    mkdirSync(join(root, 'sub'), { recursive: true })
    const id = await watches.start(root, recursive, signal)
    remove(root)
    await expect.poll(helpers).toEqual([])
    const got: WatchEvent[] = []
    for await (const event of watches.events(id, signal)) got.push(event)
    expect(got.at(-1)).toEqual({ type, path: root, name: 'root', is_dir: true })
    expect(() => watches.events(id, signal)).toThrow('there is no watch')
  })

  test('ends when it is stopped, and the second stop answers 404', async () => {
    using dir = tempDir()
    const { id, ended } = await watch(dir.path, false)
    await watches.stop(id)
    await ended
    await expect(watches.stop(id)).rejects.toMatchObject({ code: 'not_found' })
    expect(helpers()).toEqual([])
  })

  test('reports its failure', async () => {
    using dir = tempDir()
    const { id, ended } = await watch(dir.path, false)
    process.kill(helpers()[0]!, 'SIGKILL')
    await expect(ended).rejects.toMatchObject({ code: 'unavailable' })
    await expect(watches.stop(id)).rejects.toMatchObject({ code: 'not_found' })
  })

  test('reports a folder that it cannot follow, because its name is not UTF-8', async () => {
    using dir = tempDir()
    const odd = Buffer.concat([Buffer.from(`${dir.path}/odd`), Buffer.from([0xff])])
    mkdirSync(odd)
    const watched = await watch(dir.path, true)
    expect(await settled(watched, dir.path)).toEqual(['limit'])
    rmSync(odd, { recursive: true })
  })

  test('is refused if there is no such folder, or if there are too many watches', async () => {
    using dir = tempDir()
    writeFileSync(join(dir.path, 'f'), '')
    await expect(watches.start(join(dir.path, 'f'), false, signal)).rejects.toMatchObject({ code: 'bad_request' })
    await expect(watches.start(join(dir.path, 'none'), true, signal)).rejects.toMatchObject({ code: 'not_found' })
    await expect(watches.start('/proc', true, signal)).rejects.toMatchObject({ code: 'bad_request' })
    for (let i = 0; i < MAX_WATCHES; i++) await watches.start(dir.path, false, signal)
    await expect(watches.start(dir.path, false, signal)).rejects.toMatchObject({ code: 'conflict' })
  })

  test('leaves nothing if its caller leaves while it starts', async () => {
    using dir = tempDir()
    for (let i = 0; i < 300; i++) mkdirSync(join(dir.path, `d${i}/e/f`), { recursive: true })
    for (const ms of [0, 5, 15, 30]) await expect(watches.start(dir.path, true, AbortSignal.timeout(ms))).rejects.toThrow('timeout')
    await expect.poll(helpers).toEqual([])
  })
})

// ---- the events together always describe the real tree ----

type Step = ['mkdir' | 'write' | 'rm' | 'rename' | 'out' | 'in', string, string]
const place = fc.array(fc.constantFrom('a', 'b', 'c'), { minLength: 1, maxLength: 3 }).map((parts) => parts.join('/'))
const step: fc.Arbitrary<Step> = fc.tuple(fc.constantFrom('mkdir', 'mkdir', 'write', 'write', 'rm', 'rename', 'rename', 'out', 'in'), place, place)

/** In the test's own process all steps happen before the watcher reads; in another process they happen meanwhile. */
function perform(steps: readonly Step[], root: string, outside: string): void {
  for (const [kind, a, b] of steps) {
    const [from, to, away] = [join(root, a), join(root, b), join(outside, b.replaceAll('/', ''))]
    try {
      if (kind === 'mkdir') mkdirSync(from, { recursive: true })
      else if (kind === 'write') writeFileSync(from, a)
      else if (kind === 'rm') rmSync(from, { recursive: true })
      else if (kind === 'rename') renameSync(from, to)
      else if (kind === 'out') renameSync(from, away)
      else renameSync(away, from)
    } catch {} // a random step may be impossible
  }
}

/** The tree that the events describe, starting with `names`. */
function received(events: readonly WatchEvent[], root: string, names: Iterable<string>): string[] {
  const there = new Set(names)
  for (const event of events) {
    if ('event' in event) throw new Error(event.error.message)
    const path = event.path.slice(root.length + 1)
    if (event.type === 'CREATE') there.add(path)
    else if (event.type !== 'WRITE') for (const name of there) if (name === path || name.startsWith(`${path}/`)) there.delete(name)
  }
  return [...there].sort()
}

test.each(['before anyone looks', 'while we look'])(
  'the events of a watch add up to the actual files, if the changes happen %s',
  { timeout: 120_000 },
  async (when) => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 10 }), fc.array(step, { minLength: 1, maxLength: 60 }), async (before, steps) => {
        using dir = tempDir()
        using outside = tempDir()
        perform(before, dir.path, outside.path)
        const names = Object.keys(treeOf(dir.path))
        const watched = await watch(dir.path, true)
        if (when === 'before anyone looks') perform(steps, dir.path, outside.path)
        else {
          const script = `const {mkdirSync,writeFileSync,rmSync,renameSync}=require('fs');const {join}=require('path');(${perform.toString()})(...JSON.parse(process.argv[1]))`
          await once(spawn(process.execPath, ['-e', script, JSON.stringify([steps, dir.path, outside.path])]), 'exit')
        }
        const root = dirname(join(dir.path, 'x'))
        await settled(watched, dir.path)
        const actual = Object.keys(treeOf(dir.path)).sort()
        expect(received(watched.events, root, names)).toEqual(actual)
        await watches.stop(watched.id)
      }),
      { numRuns: Number(process.env.FC_RUNS ?? 10), interruptAfterTimeLimit: 100_000 },
    )
  },
)
