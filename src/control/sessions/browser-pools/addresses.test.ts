// When a caller gives a browser of a pool back, its connections, addresses, links and recordings end. None of them reaches the browser of the next caller.
import { once } from 'node:events'
import { describe, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import type { Session } from '../../../../test/support/fast-cloud.ts'
import { until } from '../../../base/wait.ts'
import { acquire, cloud, FILL_MS, filled, json, release, usePools } from './pools.suite.ts'

usePools({ COB_MAX_BROWSERS: '20' })

const jwt = (session: Session) => new URL(session.cdp_ws_url).searchParams.get('jwt')!
/** The status of a call with the session's own token and no key. */
const byToken = async (session: Session): Promise<number> =>
  (await fetch(`${cloud.url}/browsers/${session.session_id}/computer/screenshot?jwt=${jwt(session)}`, { method: 'POST' })).status
const page = async (url: string): Promise<number> => (await fetch(url, { redirect: 'manual' })).status

async function connect(url: string): Promise<WebSocket> {
  const socket = new WebSocket(url)
  await once(socket, 'open')
  return socket
}
/** The status with which a handshake is refused. */
async function refused(url: string): Promise<number> {
  const socket = new WebSocket(url)
  socket.on('error', () => {})
  const [, response] = (await once(socket, 'unexpected-response')) as [unknown, { statusCode: number; resume(): void }]
  response.resume()
  return response.statusCode
}
const closed = async (socket: WebSocket): Promise<{ code: number; reason: unknown }> => {
  const [code, reason] = (await once(socket, 'close')) as [number, Buffer]
  return { code, reason: JSON.parse(reason.toString()) }
}
const view = (session: Session) => session.browser_live_view_url as string
const socketOf = (url: string) => `${url.replace('http', 'ws')}/socket`

describe('when a browser is given back', () => {
  test.each([true, false])('the WebSockets of its caller are closed with a code and a reason (reuse %s)', async (reuse) => {
    const pool = await filled({ size: 1 })
    const mine = await acquire(pool.id)
    const sockets = [await connect(mine.cdp_ws_url), await connect(mine.webdriver_ws_url as string), await connect(socketOf(view(mine)))]
    const ends = Promise.all(sockets.map(closed))
    await release(pool.id, mine, reuse)
    expect(await ends).toMatchObject(sockets.map(() => ({ code: 4001, reason: { reason: 'released' } })))
  })

  test('its token is invalid at once, and also when the next caller has it; that one has its own', async () => {
    const pool = await filled({ size: 1 })
    const mine = await acquire(pool.id)
    expect(await byToken(mine)).toBe(200)
    await release(pool.id, mine)
    expect([401, 404]).toContain(await byToken(mine))
    expect([401, 404]).toContain(await refused(mine.cdp_ws_url))
    const next = await acquire(pool.id, { name: 'next' })
    expect([next.session_id, jwt(next) === jwt(mine)]).toEqual([mine.session_id, false])
    for (const url of [mine.cdp_ws_url, mine.webdriver_ws_url as string, mine.cdp_ws_url.replace(mine.session_id, 'next')]) expect(await refused(url)).toBe(401)
    expect([await byToken(mine), await byToken(next)]).toEqual([401, 200])
    const socket = await connect(next.cdp_ws_url)
    // One caller's addresses stay the same while it has the browser.
    expect((await json<Session>(await cloud.fetch('/browsers/next'))).cdp_ws_url).toBe(next.cdp_ws_url)
    socket.terminate()
    await release(pool.id, next)
    await acquire(pool.id)
    for (const old of [mine, next]) expect(await byToken(old)).toBe(401)
  })

  test('links to its live view are over, at once and when the next caller has it', async () => {
    const pool = await filled({ size: 1 })
    const mine = await acquire(pool.id)
    const watch = new URL((await fetch(`${view(mine)}?readOnly=true`, { redirect: 'manual' })).headers.get('location')!, cloud.url).href
    expect([await page(view(mine)), await page(watch)]).toEqual([200, 200])
    await release(pool.id, mine)
    const check = async () => {
      for (const url of [view(mine), watch]) {
        const response = await fetch(url, { redirect: 'manual' })
        expect([response.status, await response.text()]).toEqual([410, expect.stringContaining('given back')])
        expect(await refused(socketOf(url))).toBe(404)
      }
    }
    await check()
    const next = await acquire(pool.id)
    await check()
    expect([await page(view(next)), view(next) === view(mine)]).toEqual([200, false])
    ;(await connect(socketOf(view(next)))).terminate()
  })

  test('its recordings end, and stay as replays of the session, also while nobody has that', async () => {
    const pool = await filled({ size: 1 })
    const mine = await acquire(pool.id)
    const replays = `/browsers/${mine.session_id}/replays`
    const { replay_id: replay, replay_view_url: watch } = await json<{ replay_id: string; replay_view_url: string }>(await cloud.send('POST', replays, {}), 201)
    await release(pool.id, mine)
    const listed = async () => json<{ replay_id: string; finished_at?: string | null }[]>(await cloud.fetch(replays))
    await until('the end of the recording', FILL_MS, async () => (await listed())[0]?.finished_at)
    expect((await listed()).map(({ replay_id: id }) => id)).toEqual([replay])
    await until('the film', FILL_MS, async () => (await cloud.fetch(`${replays}/${replay}`)).status === 200)
    expect(await page(watch)).toBe(200)
    const next = await acquire(pool.id)
    await json(await cloud.send('POST', replays, {}), 201)
    expect((await listed()).map(({ replay_id: id }) => id)).toContain(replay)
    expect(await listed()).toHaveLength(2)
    await release(pool.id, next, false)
    expect((await cloud.fetch(`${replays}/${replay}`)).status).toBe(200)
  })
})
