// The warm pool with several kinds of ready instances: each kind reaches its number and serves only the sessions that it fits.
import { describe, expect, test } from 'vitest'
import { sleep, until } from '../../../../base/wait.ts'
import type { Driver } from '../../../../instances/driver.ts'
import { alone } from '../../../../store/leases.ts'
import { db, driver, makeFleet, NOTICE_MS, owner, row, runningIds, signal } from '../fleet.suite.ts'
import type { BootFailed } from './boots.ts'
import { headlessKind, usualKind, type Kind } from './kinds.ts'
import { gated, largeOwner } from './pools.suite.ts'

/** How long boots are held. */
const BOOT_MS = 400
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
  const { fleet, registry } = makeFleet([pool('one', 2), pool('two', 1), usualKind(1)], noting)
  fleet.refill()
  await ready('one', 'one', 'two', 'usual')
  const row = (await fleet.claim(ofPool('two')))!
  expect([row.warm_kind, booted.find(({ id }) => id === row.id)?.width, registry.claim(row.id)]).toEqual(['two', 800, true])
  await ready('one', 'one', 'two', 'usual')
  // The usual kind serves both: a session without a pool, and a session whose pool has nothing ready. The order is that of the list.
  expect((await fleet.claim(owner()))!.warm_kind).toBe('usual')
  await ready('one', 'one', 'two', 'usual')
  expect((await fleet.claim(ofPool('three')))!.warm_kind).toBe('usual')
})

test('a kind whose number changes is filled up at the next refill', async () => {
  const growing = pool('growing', 0)
  const { fleet } = makeFleet([growing])
  fleet.refill()
  await until('the warm pool to be well', NOTICE_MS, () => fleet.filling.isWell)
  expect([await kinds(), await fleet.claim(ofPool('growing'))]).toEqual([[], undefined])
  growing.target = 2
  fleet.refill()
  await ready('growing', 'growing')
})

describe('callers for whom nothing is ready', () => {
  test('are served in their order, also those who need a boot of their own, by as many boots at once as are allowed', async () => {
    const { gate, gates, next, most } = gated()
    const { fleet } = makeFleet([usualKind(0)], gate, undefined, undefined, { bootsAtOnce: 2 })
    const order: string[] = []
    const create = (name: string, wanted = owner()) => fleet.obtain({ ...wanted, name }, signal).then(({ id }) => (order.push(name), id))
    const [a, b, c] = [create('a'), create('b'), create('c')]
    await until('two boots', NOTICE_MS, () => gates.length === 2)
    const own = create('own', largeOwner())
    for (const one of [a, b]) {
      await next()
      await one
    }
    await until('two more boots', NOTICE_MS, () => gates.length === 2)
    await next()
    await next()
    await Promise.all([c, own])
    expect([order.slice(0, 2), order.length, most()]).toEqual([['a', 'b'], 4, 2])
    expect([(await row(await a)).warm_kind, (await row(await own)).warm_kind, (await runningIds()).length]).toEqual(['usual', null, 4])
  })

  test('who leave, leave no name; their boot goes on to the warm pool, and ends there when none is to be kept', async () => {
    const { gate, next } = gated()
    const { fleet } = makeFleet([usualKind(0)], gate)
    const leaving = new AbortController()
    const left = fleet.obtain(owner('mine'), leaving.signal)
    left.catch(() => {})
    await until('its boot', NOTICE_MS, () => fleet.pools.state.booting === 1)
    leaving.abort(new Error('the caller left'))
    await expect(left).rejects.toThrow('the caller left')
    expect(fleet.pools.state.waiting).toBe(0)
    await next()
    await ready('usual')
    expect(await db.selectFrom('browsers').select('name').execute()).toEqual([{ name: null }])
    await fleet.sweep()
    const rows = () => db.selectFrom('browsers').select(['state', 'end_reason']).execute()
    await until('its end', NOTICE_MS, async () => (await rows())[0]!.state === 'deleted')
    expect([await rows(), await runningIds()]).toEqual([[{ state: 'deleted', end_reason: 'surplus' }], []])
  })

  test('get the error of the boot that failed, and nothing is left of it', async () => {
    const { fleet } = makeFleet([usualKind(0)], { ...driver, start: () => Promise.reject(new Error('no display')) })
    const failed = await Promise.allSettled([1, 2, 3].map(() => fleet.obtain(owner(), signal)))
    expect(failed.map((one) => one.status === 'rejected' && ((one.reason as BootFailed).cause as Error).message)).toEqual([
      'no display',
      'no display',
      'no display',
    ])
    expect(await db.selectFrom('browsers').select('id').where('state', '<>', 'deleted').execute()).toEqual([])
  })

  test('do not wait for refills that leave the CPU to others, whatever kind these are of', async () => {
    const hurried: number[] = []
    const { gate, gates, next } = gated()
    const noting: Driver = {
      ...gate,
      start(spec, ...rest) {
        const at = hurried.push(0) - 1
        void spec.wanted?.then(() => (hurried[at] = 1))
        return gate.start(spec, ...rest)
      },
    }
    const { fleet } = makeFleet([usualKind(2)], noting, undefined, undefined, { bootsAtOnce: 2 })
    fleet.refill()
    await until('two refills', NOTICE_MS, () => gates.length === 2)
    expect(hurried).toEqual([0, 0])
    const made = fleet.obtain(largeOwner(), signal)
    await until('both to hurry', NOTICE_MS, () => hurried.join() === '1,1')
    for (let boots = 0; boots < 3; boots++) await next()
    await made
  })

  test('of one kind get an instance of another that serves them and that nobody else waits for', async () => {
    const { gate, gates, next } = gated()
    const { fleet } = makeFleet([headlessKind(0), usualKind(1)], gate, undefined, undefined, { bootsAtOnce: 1 })
    fleet.refill()
    await until('the refill', NOTICE_MS, () => gates.length === 1)
    const made = fleet.obtain({ ...owner(), options: { ...owner().options, headless: true } }, signal)
    await until('the caller to wait', NOTICE_MS, () => fleet.pools.state.waiting === 1)
    await next()
    expect((await row((await made).id)).warm_kind).toBe('usual')
    await next()
    await ready('usual')
  })

  test('keep refills from beginning', async () => {
    const { gate, gates, next } = gated()
    const { fleet } = makeFleet([usualKind(3)], gate, undefined, undefined, { bootsAtOnce: 2 })
    const made = [fleet.obtain(owner(), signal)]
    await until('its boot', NOTICE_MS, () => gates.length === 1)
    fleet.refill()
    // A refill could use the free slot here, but the second boot must be the second caller's.
    made.push(fleet.obtain(owner(), signal))
    await until('its boot', NOTICE_MS, () => gates.length === 2)
    expect(fleet.pools.state.waiting).toBe(2)
    await next()
    await next()
    await Promise.all(made)
    for (let boots = 0; boots < 3; boots++) await next()
    await ready('usual', 'usual', 'usual')
  })
})

test('refills do not begin together, so that they are not ready together', async () => {
  const { gate, gates, next } = gated()
  const began: number[] = []
  const noting = { ...gate, start: (...args: Parameters<typeof driver.start>) => (began.push(performance.now()), gate.start(...args)) }
  const { fleet } = makeFleet([usualKind(2)], noting, undefined, undefined, { bootsAtOnce: 2 })
  fleet.refill()
  await until('two boots', NOTICE_MS, () => gates.length === 2)
  await sleep(BOOT_MS)
  await next()
  await next()
  await ready('usual', 'usual')
  for (let claimed = 0; claimed < 2; claimed++) expect(await fleet.claim(owner())).toBeDefined()
  await until('two refills', NOTICE_MS, () => gates.length === 2)
  expect(began[3]! - began[2]!).toBeGreaterThan(BOOT_MS / 2 - 1)
  await next()
  await next()
  await ready('usual', 'usual')
})

describe('the number that is kept', () => {
  const MINUTE = 60_000
  const GIB = 1024 ** 3
  /** A fleet with its own clock and memory; boots take no time by this clock. */
  function learning(least: number, most: number) {
    const time = { now: 0 }
    const memory = { totalBytes: 8 * GIB, freeBytes: 8 * GIB }
    const { fleet } = makeFleet([usualKind(least, most)], driver, undefined, undefined, {
      now: () => time.now,
      memory: () => memory,
      leases: alone('this one'),
    })
    const burst = async (callers: number) => {
      const made = await Promise.all(Array.from({ length: callers }, () => fleet.obtain(owner(), signal)))
      await Promise.all(made.map(({ id }) => fleet.end(id, 'deleted')))
    }
    const swept = (count: number) =>
      until(
        `${count} ready ones`,
        NOTICE_MS,
        async () => {
          await fleet.sweep()
          return (await kinds()).length === count
        },
        { everyMs: 20 },
      )
    return { fleet, time, memory, burst, swept }
  }

  test('grows with callers who come at once, up to the most, and falls to the least when it is quiet', async () => {
    const { fleet, time, burst, swept } = learning(1, 4)
    fleet.refill()
    await ready('usual')
    await burst(3)
    await ready('usual', 'usual', 'usual')
    time.now = 10_000
    await burst(6)
    await ready('usual', 'usual', 'usual', 'usual')
    time.now = 3 * MINUTE
    await swept(4)
    // The peak of six counts in full for three minutes and then falls by one every 30 s: four are left after a minute more.
    time.now = 4.2 * MINUTE
    await swept(3)
    time.now = 10 * MINUTE
    await swept(1)
    for (let sweeps = 0; sweeps < 3; sweeps++) await fleet.sweep()
    expect([await kinds(), fleet.pools.state.wanted]).toEqual([['usual'], { usual: 1 }])
  })

  test('of one kind does not depend on another kind whose boots fail', async () => {
    const broken = (spec: { viewport: { width: number } }) => spec.viewport.width === SMALL.width
    const failing: Driver = { ...driver, start: (spec, ...rest) => (broken(spec) ? Promise.reject(new Error('no such screen')) : driver.start(spec, ...rest)) }
    const { fleet } = makeFleet([pool('broken', 1), usualKind(2)], failing)
    fleet.refill()
    await ready('usual', 'usual')
    await until('the failure of the other kind', NOTICE_MS, () => !fleet.filling.isWell)
    await fleet.obtain(owner(), signal)
    await ready('usual', 'usual')
  })

  test('does not grow while memory is short, grows when memory has come back, and falls when it becomes short again', async () => {
    const { fleet, memory, burst, swept } = learning(1, 4)
    memory.freeBytes = 0
    fleet.refill()
    await ready('usual')
    await burst(4)
    await ready('usual')
    memory.freeBytes = 8 * GIB
    await swept(4)
    memory.freeBytes = 0
    await swept(1)
  })
})
