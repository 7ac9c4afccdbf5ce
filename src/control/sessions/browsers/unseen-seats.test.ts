// Seats that replicas count together: once for several callers while many are free, and exactly at the limit.
import { setImmediate } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { NoSeat, SharedSeats } from '../../../store/seats.ts'
import { db } from './fleet.suite.ts'

/** A scope with so many seats, which several replicas count. */
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
