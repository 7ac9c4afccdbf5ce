// What keeps a session from timing out. Tests move timestamps in the database back instead of waiting.
import { once } from 'node:events'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { startFastCloud, type FastCloud, type Session } from '../../../../test/support/fast-cloud.ts'
import { sleep, until } from '../../../base/wait.ts'

/** The API promises that a timeout takes effect within this time. The rest is for a machine that is overloaded. */
const EFFECT_MS = 5_000 + 10_000
/** More than two sweeps: every use of a session is in the database, and a session that should end would have ended. */
const SWEEPS_MS = 2_200
/** Half of the time between two sweeps. */
const BETWEEN_SWEEPS_MS = 500

let cloud: FastCloud
beforeAll(async () => {
  cloud = await startFastCloud()
})
afterAll(() => cloud[Symbol.asyncDispose]())

const setBack = (session: Session) => cloud.query(`update browsers set last_active_at = now() - interval '1 hour' where id = $1`, [session.session_id])
const isThere = async (session: Session) => (await cloud.fetch(`/browsers/${session.session_id}`)).status === 200
const usedAt = async (session: Session) =>
  (await cloud.query<{ last_active_at: Date }>('select last_active_at from browsers where id = $1', [session.session_id]))[0]!.last_active_at.getTime()
/**
 * Sets a session back that is in use, between two sweeps. A sweep first notes the use and then looks for idle sessions. Set back between the two, this one would be idle, although
 * nobody can be.
 */
async function setBackInUse(session: Session, from: number): Promise<void> {
  await until('its use to be noted', EFFECT_MS, async () => (await usedAt(session)) > from)
  await sleep(BETWEEN_SWEEPS_MS)
  await setBack(session)
}
const reasonOf = async (session: Session) =>
  (await cloud.query<{ end_reason: string }>('select end_reason from browsers where id = $1', [session.session_id]))[0]!.end_reason

test.concurrent('an unused session ends after its timeout, and GET requests do not count as use', async () => {
  const session = await cloud.create({ timeout_seconds: 3600 })
  await sleep(SWEEPS_MS)
  await setBack(session)
  await until('the session to end', EFFECT_MS, async () => !(await isThere(session)))
  expect(await reasonOf(session)).toBe('timeout')
})

test.concurrent('a session with a CDP client does not time out; the timeout starts when the client disconnects', async () => {
  const session = await cloud.create({ timeout_seconds: 3600 })
  const socket = new WebSocket(session.cdp_ws_url)
  await once(socket, 'open')
  await setBackInUse(session, await usedAt(session))
  await sleep(SWEEPS_MS)
  expect(await isThere(session)).toBe(true)
  socket.terminate()
  await sleep(SWEEPS_MS)
  expect(await isThere(session)).toBe(true)
  await setBack(session)
  await until('the session to end', EFFECT_MS, async () => !(await isThere(session)))
})

test.concurrent('a computer call counts as use while it runs, and at its end', async () => {
  const session = await cloud.create({ timeout_seconds: 3600 })
  // The create is a use, too.
  await sleep(SWEEPS_MS)
  const made = await usedAt(session)
  const drag = cloud.send('POST', `/browsers/${session.session_id}/computer/drag_mouse`, {
    path: [
      [0, 0],
      [100, 100],
    ],
    delay: 6_000,
    duration_ms: 50,
  })
  // The call has come to the service: it counts as use.
  await setBackInUse(session, made)
  expect((await drag).status).toBe(200)
  expect(await isThere(session)).toBe(true)
  await sleep(SWEEPS_MS)
  expect(await isThere(session)).toBe(true)
})
