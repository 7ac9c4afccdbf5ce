// Seats that replicas count together: which rows count; one count serves several callers while many seats are free; the limit is exact.
import { setImmediate } from 'node:timers/promises'
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { newId } from '../../../base/ids.ts'
import { NoSeat, SharedSeats } from '../../../store/seats.ts'
import { moveBrowser } from './lifecycle.ts'
import { countSeats, insertStarting } from './rows.ts'
import { db, HOST, owner } from './fleet.suite.ts'

const watched = { scope: HOST, replica: 'none' }
const seats = () => countSeats(db, { scope: HOST })

test('a warm browser takes no seat, also while it boots and while it is ended', async () => {
  const id = newId()
  await insertStarting(db, id, watched, 'usual')
  expect(await seats()).toBe(0)
  await moveBrowser(db, id, 'warm', null)
  expect(await seats()).toBe(0)
  await moveBrowser(db, id, 'stopping', 'surplus')
  expect(await seats()).toBe(0)
})

test('a session takes one from its boot, or from its claim of a warm browser, until it has ended', async () => {
  const [booted, claimed] = [newId(), newId()]
  await insertStarting(db, booted, watched, null, owner())
  expect(await seats()).toBe(1)
  await insertStarting(db, claimed, watched, 'usual')
  await moveBrowser(db, claimed, 'warm', null)
  await moveBrowser(db, claimed, 'running', 'claimed warm', { created_at: sql`now()` })
  expect(await seats()).toBe(2)
  for (const id of [booted, claimed]) await moveBrowser(db, id, 'stopping', 'deleted')
  expect(await seats()).toBe(2)
  for (const id of [booted, claimed]) await moveBrowser(db, id, 'deleted', 'deleted')
  expect(await seats()).toBe(0)
})

/** A scope with `of` seats, which several replicas count. */
function scopeOf(of: number) {
  const seen = { taken: 0, counts: 0 }
  const count = async () => {
    seen.counts++
    const { taken } = seen
    await setImmediate()
    return { of, free: of - taken }
  }
  const take = async () => {
    await setImmediate()
    return ++seen.taken
  }
  return { seen, take, replica: () => new SharedSeats(db, { name: 'a test', count }) }
}

test('while many are free, one count serves twenty callers, also when all come at once', async () => {
  const { seen, take, replica } = scopeOf(10_000)
  const seats = replica()
  await Promise.all(Array.from({ length: 60 }, () => seats.take(undefined, take)))
  expect(seen).toEqual({ taken: 60, counts: 3 })
})

test('three replicas that are asked for more than there are give exactly as many as there are', async () => {
  const { seen, take, replica } = scopeOf(400)
  const replicas = [replica(), replica(), replica()]
  const asked = Array.from({ length: 600 }, (_, index) => replicas[index % 3]!.take(undefined, take))
  const refused = (await Promise.allSettled(asked)).filter((one) => one.status === 'rejected')
  expect([seen.taken, refused.length, refused.every(({ reason }) => reason instanceof NoSeat)]).toEqual([400, 200, true])
})
