// Replays of real browsers: other programs decode them and find what was on the screen at each time, also when a process dies during the recording. recordings.test.ts
// tests what does not depend on the time of a frame.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmdirSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { isRoot } from '../../src/base/user.ts'
import { sleep, until } from '../../src/base/wait.ts'
import { startCloud } from '../support/cloud.ts'
import { colours, loudFrom, near, times } from '../support/films.ts'
import { forTests } from '../support/for-tests.ts'
import { agentOf } from '../support/inside.ts'
import { CLOCK_COLOURS, CORNER, testReplays, type TestReplays } from '../support/replays.ts'

let replays: TestReplays
const scope = new AsyncDisposableStack()
const cloud = forTests(() => startCloud())
beforeAll(async () => {
  replays = scope.use(await testReplays(cloud))
})
afterAll(() => scope.disposeAsync())

/** On a busy machine, for example when a service starts, the page itself may be this late. The colours change every second. */
const BUSY_MS = 800
/** When an agent dies, the last second may be lost. The rest is a margin for a busy machine. */
const LOST_MS = 2_000

/** The moments of the video with the wrong colour for their second. Each second is checked from `lateMs` after the page painted it. */
async function wrongMoments(file: string, startedAt: string, lateMs: number, where = CORNER, painted: Record<number, number> = {}): Promise<string[]> {
  const rate = 50
  const began = Date.parse(startedAt)
  return (await colours(file, rate, where)).flatMap((colour, index) => {
    const at = began + (index * 1000) / rate
    const expected = CLOCK_COLOURS[Math.floor(at / 1000) % CLOCK_COLOURS.length]!
    const second = Math.floor(at / 1000)
    return at < (painted[second] ?? second * 1000) + lateMs || near(colour, expected)
      ? []
      : [`${new Date(at).toISOString()}: ${colour.join(' ')} for ${expected.join(' ')}`]
  })
}

describe('a replay recording', () => {
  test('shows the right colour at every second, as a rule within 100 ms, in a full HD session with tabs', async () => {
    await using session = await replays.clockSession({ timeout_seconds: 300 })
    const replay = await replays.start(session, { framerate: 20 })
    const waiting = await cloud.fetch(`/browsers/${session.id}/replays/${replay.replay_id}`)
    expect([waiting.status, Number(waiting.headers.get('retry-after'))]).toEqual([202, 2])
    expect((await waiting.arrayBuffer()).byteLength).toBe(0)
    expect((await replays.found(session, replay)).finished_at).toBe(null)
    await sleep(6_000)
    const asked = Date.now()
    await replays.stop(session, replay)
    const stopped = Date.now()
    const painted = await session.page.evaluate<Record<number, number>>('painted')
    const { file, seconds, streams } = await replays.film(session, replay)
    const { finished_at } = await replays.found(session, replay)
    expect(streams).toHaveLength(1)
    expect(streams[0]).toMatchObject({ codec_name: 'h264', width: 1920, height: 1080 })
    expect(seconds).toBeGreaterThan(5.9)
    expect(Date.parse(finished_at!)).toBeGreaterThan(asked - 400)
    expect(Date.parse(finished_at!)).toBeLessThanOrEqual(stopped)
    expect(Math.abs(Date.parse(replay.started_at!) + seconds * 1000 - Date.parse(finished_at!))).toBeLessThan(2)
    expect(Number(streams[0]!.nb_read_packets)).toBeGreaterThan(6 * 20 * 0.6)
    const wrong = (lateMs: number) => wrongMoments(file, replay.started_at!, lateMs, { x: 40, y: 1040 }, painted)
    // The test looks at 50 moments a second. Other load may delay the page or a frame now and then.
    expect(await wrong(BUSY_MS)).toEqual([])
    // If the machine stalls, the colour of one second is late; skip that second.
    const late = await wrong(100)
    const bySecond = Object.values(Object.groupBy(late, (moment) => moment.slice(0, '2026-01-01T00:00:00'.length)))
    const worst = Math.max(0, ...bySecond.map((moments) => moments!.length))
    expect(late.length - worst, late.join('\n')).toBeLessThanOrEqual(0.01 * 50 * seconds)
  })

  test('ends by itself after its longest duration, and can be downloaded by range', async () => {
    await using session = await replays.clockSession()
    const replay = await replays.start(session, { max_duration_in_seconds: 2 })
    await until('its end', 10_000, async () => (await replays.found(session, replay)).finished_at !== null, { everyMs: 50 })
    const { seconds, file } = await replays.film(session, replay)
    expect(seconds).toBeCloseTo(2, 1)
    const part = await cloud.fetch(`/browsers/${session.id}/replays/${replay.replay_id}`, { headers: { range: 'bytes=100-299' } })
    expect([part.status, part.headers.get('content-range')]).toEqual([206, expect.stringMatching(/^bytes 100-299\/\d+$/)])
    expect(Buffer.from(await part.arrayBuffer())).toEqual(readFileSync(file).subarray(100, 300))
    expect(part.headers.get('x-recording-started-at')).toBe(replay.started_at)
    expect(part.headers.get('x-recording-finished-at')).toBe((await replays.found(session, replay)).finished_at)
    await replays.stop(session, replay) // a second stop changes nothing
  })
})

test('the sound of a page is recorded if requested, at the right time', async () => {
  await using session = await replays.clockSession()
  await session.page.mouse.click(500, 300)
  const [replay, mute] = [await replays.start(session, { record_audio: true, framerate: 20 }), await replays.start(session)]
  await sleep(2_000)
  const beeped = await session.page.evaluate<number>(`(async () => {
    const context = new AudioContext()
    await context.resume()
    const tone = context.createOscillator()
    tone.frequency.value = 440
    tone.connect(context.destination)
    tone.start()
    const at = Date.now()
    tone.stop(context.currentTime + 1)
    return at
  })()`)
  await sleep(2_500)
  await Promise.all([replays.stop(session, replay), replays.stop(session, mute)])
  const { file, streams, seconds } = await replays.film(session, replay)
  expect(streams.map(({ codec_name }) => codec_name)).toEqual(['h264', 'aac'])
  expect((await replays.film(session, mute)).streams).toHaveLength(1)
  const loud = await loudFrom(file)
  const expected = (beeped - Date.parse(replay.started_at!)) / 1000
  console.log(`beep at ${expected.toFixed(3)} s, heard from ${loud.from.toFixed(3)} to ${loud.to.toFixed(3)} s of ${seconds}`)
  expect(Math.abs(loud.from - expected)).toBeLessThan(0.5)
  expect(loud.to - loud.from).toBeGreaterThan(0.8)
  expect(loud.to - loud.from).toBeLessThan(1.2)
})

describe('a recording survives', () => {
  test('the end of its session, and can be downloaded after it', async () => {
    const session = await replays.clockSession()
    const replay = await replays.start(session, { framerate: 20 })
    await sleep(2_500)
    const asked = Date.now()
    await session[Symbol.asyncDispose]()
    const deletedAt = Date.now()
    const { file, seconds } = await replays.film(session, replay)
    const { finished_at } = await replays.found(session, replay)
    expect(Date.parse(replay.started_at!) + seconds * 1000).toBeGreaterThan(asked - 700)
    expect(Date.parse(finished_at!)).toBeLessThanOrEqual(deletedAt)
    expect(await wrongMoments(file, replay.started_at!, BUSY_MS)).toEqual([])
    await expect(replays.start(session)).rejects.toMatchObject({ status: 404 })
  })

  test('the death of its agent, up to the last second', async () => {
    const session = await replays.clockSession()
    const replay = await replays.start(session, { framerate: 20 })
    await sleep(3_600)
    const killedAt = Date.now()
    process.kill(agentOf(cloud, session.id), 'SIGKILL')
    const { file, seconds } = await replays.film(session, replay)
    expect(Date.parse(replay.started_at!) + seconds * 1000).toBeGreaterThan(killedAt - LOST_MS)
    expect(await wrongMoments(file, replay.started_at!, BUSY_MS)).toEqual([])
    await session.browser.close()
  })

  test('the death of the service: the next one continues it, and finishes those that ended meanwhile', async () => {
    await using session = await replays.clockSession()
    const lost = await replays.clockSession()
    const [replay, other] = await Promise.all([replays.start(session, { framerate: 20 }), replays.start(lost)])
    await sleep(3_000)
    const agent = agentOf(cloud, lost.id)
    await cloud.kill()
    process.kill(agent, 'SIGKILL')
    await sleep(1_000)
    await cloud.start()
    await sleep(2_000)
    await replays.stop(session, replay)
    const { file, seconds } = await replays.film(session, replay)
    expect(seconds).toBeGreaterThan(6)
    expect(await wrongMoments(file, replay.started_at!, BUSY_MS)).toEqual([])
    const rest = await replays.film(lost, other)
    expect(rest.seconds).toBeGreaterThan(0.9)
    await lost.browser.close().catch(() => {})
  })

  test('the death of a service that was ending its session: the next one fetches the rest before it ends the instance', async () => {
    const session = await replays.clockSession()
    const replay = await replays.start(session, { framerate: 20 })
    await sleep(1_000)
    await cloud.kill()
    // The row as a service leaves it that is killed just after a delete has begun.
    await cloud.query(`update browsers set state = 'stopping', end_reason = 'deleted' where id = $1`, [session.id])
    await sleep(2_000)
    const startedAt = Date.now()
    await cloud.start()
    const { file, seconds } = await replays.film(session, replay)
    expect(Date.parse(replay.started_at!) + seconds * 1000).toBeGreaterThan(startedAt - 1_200)
    expect(await wrongMoments(file, replay.started_at!, BUSY_MS)).toEqual([])
    const rowOf = () => cloud.query<{ state: string; ended_steps: string[] }>('select state, ended_steps from browsers where id = $1', [session.id])
    const [row] = await until('its end', 20_000, async () => (await rowOf()).every(({ state }) => state === 'deleted') && rowOf(), { everyMs: 50 })
    expect(row!.ended_steps).toEqual(['wake', 'calls', 'clients', 'recordings', 'profile', 'telemetry', 'proxy', 'kill', 'instance'])
    await session.browser.close().catch(() => {})
  })

  test.runIf(isRoot())('a full spool: the part that was stored is a playable film', async () => {
    await using session = await replays.clockSession()
    // On its own file system, so that files are copied to the object store, not linked. The mount is outside the data directory: sandboxes of other services inherit it,
    // and a process with a mount in the data directory would count as left behind.
    const spool = join(cloud.dataDir, 'spool')
    const small = mkdtempSync(join(tmpdir(), 'cob-small-'))
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=400k', 'tmpfs', small])
    rmSync(spool, { recursive: true, force: true })
    symlinkSync(small, spool)
    try {
      const replay = await replays.start(session, { framerate: 20 })
      await until('its end', 60_000, async () => (await replays.found(session, replay)).finished_at !== null, { everyMs: 100 })
      const { seconds, file } = await replays.film(session, replay)
      expect(seconds).toBeGreaterThan(1)
      expect((await times(file)).length).toBeGreaterThan(10)
      expect(await cloud.query('select end_reason from replays where id = $1', [replay.replay_id])).toEqual([{ end_reason: 'store_failed' }])
      await cloud.query('delete from replays where id = $1', [replay.replay_id])
    } finally {
      rmSync(spool)
      execFileSync('umount', [small])
      rmdirSync(small)
    }
  })
})
