// Replays of real browsers, the part that does not depend on the time of a frame: length, size, the player.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { sleep, until } from '../../src/base/wait.ts'
import { colours, near } from '../support/films.ts'
import { forTests } from '../support/for-tests.ts'
import { amount } from '../support/long.ts'
import { CLOCK_COLOURS, CORNER, SMALL, testReplays, type TestReplays } from '../support/replays.ts'
import { openSession } from '../support/session.ts'
import { shareCloud } from '../support/shared-cloud.ts'

let replays: TestReplays
const ended = new AsyncDisposableStack()
const cloud = forTests(() => shareCloud())
beforeAll(async () => {
  replays = ended.use(await testReplays(cloud))
})
afterAll(() => ended.disposeAsync())

describe('a replay recording', () => {
  test('of a still page is small, and as long as the time between start and stop', async () => {
    await using session = await replays.clockSession(SMALL, '#still')
    const called = performance.now()
    const replay = await replays.start(session)
    const started = performance.now()
    await sleep(amount(5_000, 120_000))
    const asked = performance.now()
    await replays.stop(session, replay)
    const stopped = performance.now()
    const { seconds, streams, file } = await replays.film(session, replay)
    expect(seconds).toBeGreaterThan((asked - started) / 1000 - 0.1)
    expect(seconds).toBeLessThan((stopped - called) / 1000 + 0.1)
    expect(Number(streams[0]!.nb_read_packets)).toBeLessThan(10 + seconds / 2.5)
    expect((await colours(file, 1, CORNER)).length).toBeGreaterThanOrEqual(Math.floor(seconds))
  })

  test('continues after a change of the viewport, in its first size', async () => {
    await using session = await replays.clockSession()
    const replay = await replays.start(session, { framerate: 20 })
    /** The present time in the video, in seconds. */
    const now = () => (Date.now() - Date.parse(replay.started_at!)) / 1000
    await sleep(1_500)
    const change = now()
    await cloud.client.browsers.update(session.id, { viewport: { width: 601, height: 801 } })
    const changed = now()
    await sleep(2_500)
    const middle = (changed + now()) / 2
    await cloud.client.browsers.update(session.id, { viewport: { width: 1000, height: 600 } })
    await sleep(2_000)
    const end = now()
    await replays.stop(session, replay)
    const { file, seconds, streams } = await replays.film(session, replay)
    expect(streams[0]).toMatchObject({ width: 1000, height: 600 })
    expect(seconds).toBeGreaterThan(end - 0.1)
    // The narrow screen is in the middle of the video, between two black bars.
    const rate = 4
    const [bar, inside] = [await colours(file, rate, CORNER), await colours(file, rate, { x: 500, y: 560 })]
    const isClock = (colour: number[]) => CLOCK_COLOURS.some((one) => near(colour, one))
    const [early, narrow] = [Math.floor((change / 2) * rate), Math.floor(middle * rate)]
    expect(near(bar[narrow]!, [0, 0, 0])).toBe(true)
    expect([inside[narrow]!, bar[early]!, bar.at(-1)!].map(isClock)).toEqual([true, true, true])
  })

  test('with wrong fields is refused, and the error names each', async () => {
    await using session = await openSession(cloud, SMALL)
    for (const [body, field] of [
      [{ framerate: 0 }, 'framerate'],
      [{ framerate: 21 }, 'GPU'],
      [{ max_duration_in_seconds: 0 }, 'max_duration_in_seconds'],
      [{ max_duration_in_seconds: 2_147_483_648 }, 'max_duration_in_seconds'],
      [{ record_audio: 'yes' }, 'record_audio'],
      [{ quality: 1 }, 'quality'],
    ] as const)
      await expect(cloud.client.browsers.replays.start(session.id, body as object)).rejects.toMatchObject({
        status: 400,
        message: expect.stringContaining(field),
      })
    await expect(cloud.client.browsers.replays.start('nobody')).rejects.toMatchObject({ status: 404 })
    await expect(cloud.client.browsers.replays.stop('nothing', { id: session.id })).rejects.toMatchObject({ status: 404 })
    await expect(cloud.client.browsers.replays.download('nothing', { id: session.id })).rejects.toMatchObject({ status: 404 })
  })
})

describe('the replay player', () => {
  test('plays a replay for anyone with its address, and nothing else', async () => {
    await using session = await replays.clockSession()
    const [replay, other] = [await replays.start(session), await replays.start(session)]
    const early = await fetch(replay.replay_view_url!)
    expect([early.status, await early.text()]).toEqual([200, expect.stringContaining('Recording')])
    await sleep(3_000)
    await Promise.all([replays.stop(session, replay), replays.stop(session, other)])
    const answer = await fetch(replay.replay_view_url!)
    expect(answer.headers.get('content-security-policy')).toContain("default-src 'none'")
    expect(answer.headers.get('referrer-policy')).toBe('no-referrer')
    // Debian's Chromium plays H.264, so the session itself opens the player.
    const { page } = session
    const inside = replay.replay_view_url!.replace('127.0.0.1', 'host.cob.internal')
    const problems: string[] = []
    page.on('console', (message) => void (message.type() === 'error' && problems.push(message.text())))
    await page.goto(inside)
    await page.locator('.big').click()
    await until('the video to play', 10_000, async () => (await page.evaluate<number>(`document.querySelector('video').currentTime`)) > 0.5, { everyMs: 50 })
    await page.keyboard.press('k')
    expect(await page.evaluate(`document.querySelector('video').paused`)).toBe(true)
    await page.locator('.seek').focus()
    await page.keyboard.press('Home')
    await until('the beginning', 5_000, async () => (await page.evaluate(`document.querySelector('video').currentTime`)) === 0, { everyMs: 20 })
    await page.keyboard.press('End')
    await until('the end', 5_000, async () => (await page.evaluate<number>(`document.querySelector('video').currentTime`)) > 2.5, { everyMs: 20 })
    expect(await page.evaluate<number>(`document.querySelector('video').duration`)).toBeGreaterThan(2.9)
    expect(problems).toEqual([])
    const token = new URL(replay.replay_view_url!).search
    for (const path of [
      `/replays/${other.replay_id}/view${token}`,
      `/replays/${other.replay_id}/video${token}`,
      `/replays/${replay.replay_id}/video`,
      `/replays/${replay.replay_id}/view?jwt=x`,
    ])
      expect((await fetch(cloud.url + path)).status).toBe(404)
    const video = await fetch(`${cloud.url}/replays/${replay.replay_id}/video${token}`, { headers: { range: 'bytes=0-9' } })
    expect(video.status).toBe(206)
    expect(cloud.log()).not.toContain(token.slice(5))
  })
})
