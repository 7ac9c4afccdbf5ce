// Several browser pools beside each other and beside warm browsers: whose boot comes next, and how fast browsers that ended are replaced.
import { describe, expect, test } from 'vitest'
import { amount } from '../../../../../test/support/long.ts'
import { sleep, until } from '../../../../base/wait.ts'
import { db, NOTICE_MS, owner, row, signal } from '../fleet.suite.ts'
import type { Fleet } from '../fleet.ts'
import { usualKind } from './kinds.ts'
import { gated, giveBack, idsOf, insertPool, largeOwner, lend, makePoolFleet, reaches, resize, states } from './pools.suite.ts'

const MINUTE = 60_000
const GIB = 1024 ** 3
/** Time within which a boot notices that its row is warm. */
const SETTLED_MS = 50

describe('the next boot', () => {
  test('is for the pool that has the smallest part of its browsers', async () => {
    const [large, small] = [await insertPool(4), await insertPool(2)]
    const { gate, order, next } = gated()
    makePoolFleet({ over: gate, bootsAtOnce: 1 }).fleet.refill()
    for (let boots = 0; boots < 6; boots++) await next()
    await reaches(large, { warm: 4 })
    await reaches(small, { warm: 2 })
    const [a, b] = [large, small]
    expect(order).toEqual([a, b, a, a, b, a])
  })

  test('counts a browser that comes up while browsers are counted', async () => {
    const [large, small] = [await insertPool(4), await insertPool(2)]
    const { gate, order, next } = gated()
    const configured = Promise.withResolvers<void>()
    let calls = 0
    const configure = async () => {
      if (++calls === 2) await configured.promise
    }
    const counts = new WeakSet<object>()
    const through = db.withPlugin({
      transformQuery({ node, queryId }) {
        if (JSON.stringify(node).includes('full join')) counts.add(queryId)
        return node
      },
      async transformResult({ result, queryId }) {
        if (calls !== 2 || !counts.has(queryId)) return result
        configured.resolve()
        await until('it to be warm', NOTICE_MS, async () => (await states(small)).warm === 1)
        await sleep(SETTLED_MS, signal)
        return result
      },
    })
    makePoolFleet({ over: gate, bootsAtOnce: 1, configure, through }).fleet.refill()
    for (let boots = 0; boots < 6; boots++) await next()
    await reaches(large, { warm: 4 })
    await reaches(small, { warm: 2 })
    expect(order.slice(0, 3)).toEqual([large, small, large])
  })

  test('is for a caller, whatever pools are short of, and for the least number of warm browsers before pools', async () => {
    const pool = await insertPool(5)
    const { gate, order, next } = gated()
    const { fleet } = makePoolFleet({ warm: [usualKind(1)], over: gate, bootsAtOnce: 1 })
    fleet.refill()
    await next()
    await until('the first of the pool', NOTICE_MS, () => order.length === 2)
    const own = fleet.obtain(largeOwner(), signal)
    // The first caller takes the warm browser; a second caller has to wait for a boot.
    await fleet.obtain(owner(), signal)
    const second = fleet.obtain(owner(), signal)
    await next()
    await next()
    await next()
    await Promise.all([own, second])
    expect(order.slice(0, 2)).toEqual(['warm', pool])
    expect(order.slice(2, 4).toSorted()).toEqual(['own', 'warm'])
    for (let boots = 0; boots < 5; boots++) await next()
    await reaches(pool, { warm: 5 })
  })

  test('is for the callers of a pool before the refills of another one, also beyond its rate', async () => {
    const pool = await insertPool(2, 0)
    const { gate, order, next } = gated()
    const { fleet } = makePoolFleet({ over: gate, bootsAtOnce: 1 })
    fleet.refill()
    await next()
    await next()
    await reaches(pool, { warm: 2 })
    for (const id of await idsOf(pool, 'warm')) await fleet.takeOut(id, 'deleted')
    await reaches(pool, {})
    const other = await insertPool(2)
    await fleet.pools.changed()
    await until('its refill', NOTICE_MS, () => order.length === 3)
    const made = [lend(fleet, pool), lend(fleet, pool)]
    // Both boots are planned, and wait for their slot.
    await reaches(pool, { starting: 2 })
    for (let boots = 0; boots < 4; boots++) await next()
    expect(new Set(await Promise.all(made)).size).toBe(2)
    await reaches(other, { warm: 2 })
    expect(order).toEqual([pool, pool, other, pool, pool, other])
  })

  test('is not for a pool when memory is short, unless a caller waits', async () => {
    const pool = await insertPool(2)
    const memory = { totalBytes: 8 * GIB, freeBytes: GIB }
    const { fleet } = makePoolFleet({ memory: () => memory })
    fleet.refill()
    await until('the warm pool to be well', NOTICE_MS, () => fleet.filling.isWell)
    const id = (await lend(fleet, pool))!
    await fleet.sweep()
    expect([await states(pool), (await row(id)).state]).toEqual([{ running: 1 }, 'running'])
    memory.freeBytes = 4 * GIB
    await fleet.sweep()
    await reaches(pool, { running: 1, warm: 1 })
  })
})

describe('what has ended', () => {
  /** A pool of 4 with its own test clock. With a rate of 25 % it makes one browser each minute. The tokens that it has saved up are used. */
  async function usedUp(rate: number) {
    const time = { now: 0 }
    const pool = await insertPool(4, rate)
    const { fleet } = makePoolFleet({ now: () => time.now })
    fleet.refill()
    await reaches(pool, { warm: 4 })
    const end = async (count: number) => {
      for (let ends = 0; ends < count; ends++) await fleet.takeOut((await lend(fleet, pool))!, 'released')
    }
    const after = async (ms: number) => {
      time.now += ms
      await fleet.sweep()
    }
    return { pool, fleet, end, after }
  }

  test('is replaced at the rate of its pool, a whole pool at once after a pause', async () => {
    const { pool, fleet, end, after } = await usedUp(25)
    await end(4)
    await reaches(pool, { warm: 4 })
    await end(2)
    await reaches(pool, { warm: 2 })
    await after(MINUTE - 1)
    expect(await states(pool)).toEqual({ warm: 2 })
    await after(1)
    await reaches(pool, { warm: 3 })
    await after(MINUTE)
    await reaches(pool, { warm: 4 })
    // A boot for a waiting caller is not limited by the rate.
    const leased = [await lend(fleet, pool), await lend(fleet, pool), await lend(fleet, pool), await lend(fleet, pool)]
    await fleet.takeOut(leased[0]!, 'released')
    expect(await lend(fleet, pool)).toBeDefined()
    await reaches(pool, { running: 4 })
    await after(60 * MINUTE)
    for (const id of await idsOf(pool, 'running')) await fleet.takeOut(id, 'released')
    await reaches(pool, { warm: 4 })
  })

  test('is not replaced with a rate of 0; growth and a flush are made all the same', async () => {
    const { pool, fleet, end, after } = await usedUp(0)
    await end(2)
    await reaches(pool, { warm: 2 })
    await after(1_000 * MINUTE)
    expect(await states(pool)).toEqual({ warm: 2 })
    await fleet.discards.idle(pool)
    await reaches(pool, { warm: 2 })
    await resize(pool, 6)
    await fleet.pools.changed()
    await reaches(pool, { warm: 4 })
    await after(MINUTE)
    expect(await states(pool)).toEqual({ warm: 4 })
  })

  test('because its boots failed is made later: they do not use up the rate', async () => {
    const time = { now: 0 }
    const pool = await insertPool(2, 0)
    let failures = 0
    const configure = async () => {
      if (failures++ < 5) throw new Error('the proxy is gone')
    }
    const { fleet } = makePoolFleet({ now: () => time.now, configure })
    fleet.refill()
    await until('a full pool', NOTICE_MS, async () => {
      time.now += MINUTE
      await fleet.sweep()
      return (await states(pool)).warm === 2
    })
    expect(failures).toBe(7)
  })
})

test(
  `${amount(200, 1_000)} browsers in ${amount(20, 50)} pools are made, counted right, and lent to callers who come at once`,
  { timeout: amount(60_000, 600_000) },
  async () => {
    const [count, size] = [amount(20, 50), amount(10, 20)]
    const pools = await Promise.all(Array.from({ length: count }, () => insertPool(size)))
    const { fleet } = makePoolFleet()
    const full = async (of: Fleet, wanted: number) =>
      until('the pools', amount(60_000, 300_000), async () => {
        const { rows } = await db
          .selectFrom('browsers')
          .select(({ fn }) => fn.countAll<string>().as('rows'))
          .where('state', '=', 'warm')
          .executeTakeFirstOrThrow()
        return Number(rows) === wanted && of.pools.state.booting === 0
      })
    fleet.refill()
    await full(fleet, count * size)
    for (const pool of pools) expect(await states(pool)).toEqual({ warm: size })
    const ids = await Promise.all(Array.from({ length: 50 }, (_, caller) => lend(fleet, pools[caller % count]!)))
    expect(new Set(ids).size).toBe(50)
    for (const [caller, id] of ids.entries()) expect((await row(id!)).pool_id).toBe(pools[caller % count])
    expect((await Promise.all(ids.map((id, caller) => giveBack(fleet, pools[caller % count]!, id!)))).every(Boolean)).toBe(true)
    await full(fleet, count * size)
  },
)
