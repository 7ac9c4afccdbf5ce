// The shelf with several kinds of ready instances: each at its number, each only for the sessions that it serves.
import { expect, test } from 'vitest'
import { until } from '../../../base/wait.ts'
import { db, driver, makeFleet, NOTICE_MS, owner } from '../fleet.suite.ts'
import { usualKind, type Kind } from './kinds.ts'

const SMALL = { width: 800, height: 600, refresh_rate: 60 }
const pool = (name: string, target: number): Kind => ({
  name,
  target,
  spec: { viewport: SMALL, maxScreen: SMALL },
  serves: ({ tags }) => tags.pool === name,
})
const ofPool = (name: string) => ({ ...owner(), tags: { pool: name } })
const kinds = async () => {
  const rows = await db.selectFrom('browsers').select('warm_kind').where('state', '=', 'warm').execute()
  return rows.map(({ warm_kind }) => warm_kind).toSorted()
}
const ready = (...names: string[]) => until(`ready: ${names.join(', ')}`, NOTICE_MS, async () => (await kinds()).join() === names.toSorted().join())

test('each kind is kept at its number, is claimed only by sessions that it serves, and is replaced', async () => {
  const booted: { id: string; width: number }[] = []
  const noting = {
    ...driver,
    start: async (...args: Parameters<typeof driver.start>) => (booted.push({ id: args[0].id, width: args[0].viewport.width }), driver.start(...args)),
  }
  const { fleet } = makeFleet([pool('one', 2), pool('two', 1), usualKind(1)], noting)
  fleet.refill()
  await ready('one', 'one', 'two', 'usual')
  const row = (await fleet.claim(ofPool('two')))!
  expect([row.warm_kind, booted.find(({ id }) => id === row.id)?.width, fleet.take(row, () => {})]).toEqual(['two', 800, true])
  await ready('one', 'one', 'two', 'usual')
  // A session of no pool, and one whose pool has nothing ready: the usual kind serves both, in the order of the list.
  expect((await fleet.claim(owner()))!.warm_kind).toBe('usual')
  await ready('one', 'one', 'two', 'usual')
  expect((await fleet.claim(ofPool('three')))!.warm_kind).toBe('usual')
})

test('a kind whose number changes is filled up at the next refill', async () => {
  const growing = pool('growing', 0)
  const { fleet } = makeFleet([growing])
  fleet.refill()
  await until('the shelf to be well', NOTICE_MS, () => fleet.isWell)
  expect([await kinds(), await fleet.claim(ofPool('growing'))]).toEqual([[], undefined])
  growing.target = 2
  fleet.refill()
  await ready('growing', 'growing')
})
