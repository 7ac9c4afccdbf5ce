// Recordings of a screen that the test paints: encoded by a real ffmpeg, decoded by other programs.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { colours, decode, keep, near, probe } from '../../../test/support/films.ts'
import { silentLog } from '../../base/log.ts'
import { newId } from '../../base/ids.ts'
import { sleep, until } from '../../base/wait.ts'
import type { Screen } from '../display/display.ts'
import { Mp4Index } from '../../control/sessions/replays/mp4-index.ts'
import { mp4HeaderOf } from '../../control/sessions/replays/mp4-header.ts'
import { openRecordings } from './recordings.ts'
import type { Sound } from './sound.ts'

let dir: string
beforeAll(() => void (dir = mkdtempSync(join(tmpdir(), 'cob-recording-'))))
afterAll(() => rmSync(dir, { recursive: true, force: true }))

/** The recording as callers get it. */
async function finished(stream: AsyncIterable<Buffer>): Promise<Buffer> {
  const all = await buffer(stream)
  const index = new Mp4Index()
  index.push(all)
  expect(index.length).toBe(all.length)
  return Buffer.concat([mp4HeaderOf(index)!, all])
}

/** A screen of one colour. */
function paintedScreen(width: number, height: number) {
  let size = { width, height, refresh_rate: 60 }
  let colour = [0, 0, 0]
  let copies = 0
  const watchers = new Set<() => void>()
  const changed = () => watchers.forEach((tell) => tell())
  const screen: Pick<Screen, 'copy' | 'watch'> = {
    async copy(room) {
      copies++
      const pixels = room(size)
      pixels.fill(Buffer.from([colour[2]!, colour[1]!, colour[0]!, 0]))
      return { ...size, version: copies }
    },
    watch(onChange) {
      watchers.add(onChange)
      return () => void watchers.delete(onChange)
    },
  }
  return {
    screen: screen as Screen,
    paint: (red: number, green: number, blue: number) => {
      colour = [red, green, blue]
      changed()
    },
    resize: (w: number, h: number) => {
      size = { ...size, width: w, height: h }
      changed()
    },
    copies: () => copies,
    watchers: () => watchers.size,
  }
}

const silent = { server: () => Promise.reject(new Error('there is no sound here')) }
const hooks = { clock: () => Date.now() * 1000, onCrash: () => {} }
const spec = (more: object = {}) => ({ id: newId(), framerate: 10, audio: false, ...more })

test('a still screen is recorded now and then, a moving one at most at the frame rate', async () => {
  const painted = paintedScreen(320, 200)
  await using recordings = openRecordings(painted.screen, silent, dir, silentLog, hooks)
  const still = spec()
  await recordings.start(still)
  await sleep(3_000)
  expect(painted.copies()).toBeLessThanOrEqual(1)
  const timer = setInterval(() => painted.paint(Math.random() * 255, 0, 0), 5)
  const began = performance.now()
  await sleep(2_000)
  clearInterval(timer)
  expect(painted.copies()).toBeGreaterThanOrEqual(8)
  expect(painted.copies()).toBeLessThanOrEqual(((performance.now() - began) / 1000) * 10 + 3)
  await recordings.stop(still.id)
  const film = keep(join(dir, 'still.mp4'), await finished(await recordings.read(still.id, 0, AbortSignal.timeout(5_000))))
  expect((await probe(film)).seconds).toBeGreaterThan(4.9)
})

test('a recording continues after a resize, in its first size; odd sizes are padded', async () => {
  const painted = paintedScreen(321, 201)
  await using recordings = openRecordings(painted.screen, silent, dir, silentLog, hooks)
  painted.paint(255, 0, 0)
  const asked = spec({ framerate: 20 })
  await recordings.start(asked)
  await sleep(500)
  painted.resize(161, 301)
  painted.paint(0, 255, 0)
  await sleep(1_200)
  await recordings.stop(asked.id)
  const film = keep(join(dir, 'resized.mp4'), await finished(await recordings.read(asked.id, 0, AbortSignal.timeout(5_000))))
  await decode(film)
  expect((await probe(film)).streams[0]).toMatchObject({ width: 322, height: 202 })
  const last = (where: { x: number; y: number }) => colours(film, 10, where).then((seen) => seen.at(-1)!)
  expect(near(await last({ x: 160, y: 100 }), [0, 255, 0])).toBe(true)
  expect(near(await last({ x: 20, y: 100 }), [0, 0, 0])).toBe(true)
})

test('a recording gets no longer than its longest duration when the machine is busy at its end', async () => {
  const painted = paintedScreen(64, 64)
  await using recordings = openRecordings(painted.screen, silent, dir, silentLog, hooks)
  const asked = spec({ maxDurationMs: 1_000 })
  await recordings.start(asked)
  const timer = setInterval(() => painted.paint(Math.random() * 255, 0, 0), 5)
  await sleep(850)
  for (const end = performance.now() + 500; performance.now() < end;);
  const film = keep(join(dir, 'busy.mp4'), await finished(await recordings.read(asked.id, 0, AbortSignal.timeout(5_000))))
  clearInterval(timer)
  expect(recordings.status(asked.id)).toMatchObject({ ended: 'max_duration', durationMs: 1_000 })
  expect((await probe(film)).seconds).toBeCloseTo(1, 1)
})

test('three recordings at once share their pictures; the ninth is refused', async () => {
  const painted = paintedScreen(64, 64)
  await using recordings = openRecordings(painted.screen, silent, dir, silentLog, hooks)
  const three = [spec(), spec(), spec()]
  await Promise.all(three.map((one) => recordings.start(one)))
  const before = painted.copies()
  const timer = setInterval(() => painted.paint(Math.random() * 255, 0, 0), 5)
  const began = performance.now()
  await sleep(1_000)
  clearInterval(timer)
  expect(painted.copies() - before).toBeLessThanOrEqual(((performance.now() - began) / 1000) * 22)
  for (let more = 0; more < 5; more++) await recordings.start(spec())
  await expect(recordings.start(spec())).rejects.toThrow('8 recordings')
})

test('a full disk ends a recording; everything written before stays intact', async ({ skip }) => {
  const small = mkdtempSync(join(tmpdir(), 'cob-full-'))
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=256k', 'tmpfs', small])
  } catch {
    rmSync(small, { recursive: true })
    return skip('only root may mount a small disk')
  }
  try {
    const painted = paintedScreen(640, 480)
    await using recordings = openRecordings(noisy(painted.screen), silent, small, silentLog, hooks)
    const asked = spec({ framerate: 20 })
    await recordings.start(asked)
    const timer = setInterval(() => painted.paint(0, 0, 0), 20)
    await expect.poll(() => recordings.status(asked.id).ended, { timeout: 20_000 }).toBe('disk_full')
    clearInterval(timer)
    const film = keep(join(dir, 'full.mp4'), await finished(await recordings.read(asked.id, 0, AbortSignal.timeout(5_000))))
    await decode(film)
    expect(recordings.status(asked.id).bytes).toBeLessThanOrEqual(256 * 1024)
    await recordings.forget(asked.id)
    expect(execFileSync('df', ['--output=used', small]).toString()).toMatch(/\b0$/m)
  } finally {
    execFileSync('umount', [small])
    rmSync(small, { recursive: true })
  }
})

/** The same screen with noise, which an encoder cannot compress. */
function noisy(screen: Screen): Screen {
  return {
    ...screen,
    copy: (room) =>
      screen.copy((size) => {
        const pixels = room(size)
        queueMicrotask(() => {
          for (let at = 0; at < pixels.length; at += 4) pixels.writeUInt32LE((Math.random() * 0xffffff) | 0, at)
        })
        return pixels
      }),
  }
}

test('a recording that is dropped while its sound is opened never begins, and one that is asked for twice begins once', async () => {
  const painted = paintedScreen(320, 200)
  const opening: PromiseWithResolvers<Sound>[] = []
  let closed = 0
  const sound: Sound = { track: { rate: 48_000, channels: 2, config: Buffer.alloc(2) }, take: () => [], close: async () => void closed++ }
  const soundOf = () => {
    opening.push(Promise.withResolvers())
    return opening.at(-1)!.promise
  }
  await using recordings = openRecordings(painted.screen, { server: async () => 'unix:/none' }, dir, silentLog, hooks, soundOf)
  const asked = spec({ audio: true })
  const starts = [recordings.start(asked), recordings.start(asked)]
  const refused = starts.map((start) => expect(start).rejects.toMatchObject({ code: 'unavailable' }))
  await until('its sound', 5_000, () => opening.length > 0)
  await recordings.forget(asked.id)
  opening[0]!.resolve(sound)
  await Promise.all(refused)
  expect([opening.length, closed]).toEqual([1, 1])
  expect(() => recordings.status(asked.id)).toThrow('there is no recording')
  const again = recordings.start(asked)
  await until('its sound', 5_000, () => opening.length > 1)
  opening[1]!.resolve(sound)
  painted.paint(1, 2, 3)
  expect((await again).ended).toBeUndefined()
})
