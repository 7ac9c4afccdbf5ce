// Which uses keep a session from timing out. Tests move timestamps in the database back instead of waiting.
import { once } from 'node:events'
import { expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { fastCloud, type Session } from '../../../../test/support/fast-cloud.ts'
import { sleep, until } from '../../../base/wait.ts'

/** The API promises that a timeout takes effect within this time. The rest is for a machine that is overloaded. */
const EFFECT_MS = 5_000 + 10_000
/** More than two sweeps: by then every use is in the database, and every session that should end has ended. */
const SWEEPS_MS = 2_200
/** Half of the time between two sweeps. */
const BETWEEN_SWEEPS_MS = 500

const cloud = fastCloud()

const setBack = (session: Session) => cloud.query(`update browsers set last_active_at = now() - interval '1 hour' where id = $1`, [session.session_id])
const isThere = async (session: Session) => (await cloud.fetch(`/browsers/${session.session_id}`)).status === 200
const usedAt = async (session: Session) =>
  (await cloud.query<{ last_active_at: Date }>('select last_active_at from browsers where id = $1', [session.session_id]))[0]!.last_active_at.getTime()
/**
 * Moves the last use of a busy session back, in the middle between two sweeps. A sweep first records uses and then looks for idle sessions. A change between
 * these two steps would make the busy session look idle.
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
  // Creating a session counts as a use, too.
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
  // The call has reached the service, so it counts as a use.
  await setBackInUse(session, made)
  expect((await drag).status).toBe(200)
  expect(await isThere(session)).toBe(true)
  await sleep(SWEEPS_MS)
  expect(await isThere(session)).toBe(true)
})
