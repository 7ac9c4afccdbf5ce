// Races in pools: callers who come, give back and leave at the same moment, and browsers that end meanwhile.
import { describe, expect, test } from 'vitest'
import { amount } from '../../../../../test/support/long.ts'
import { sleep, until } from '../../../../base/wait.ts'
import { deletePool } from '../../browser-pools/rows.ts'
import { db, driver, NOTICE_MS, row, signal, sweptAway } from '../fleet.suite.ts'
import { giveBack, idsOf, insertPool, lend, makePoolFleet, reaches, states } from './pools.suite.ts'

/** How often each race is run, each time with another delay between its two sides. */
const ROUNDS = amount(20, 200)
/** The longest delay. */
const LATEST_MS = 6

/** A pool of `size` that is full, and its fleet. */
async function filled(size: number, settings: Parameters<typeof makePoolFleet>[0] = {}) {
  const pool = await insertPool(size)
  const made = makePoolFleet(settings)
  made.fleet.refill()
  await reaches(pool, { warm: size })
  return { ...made, pool }
}

/** Runs both, in either order, with a delay that depends on `round`. */
const both = async (round: number, one: () => Promise<unknown>, two: () => Promise<unknown>): Promise<void> => {
  const apart = (Math.floor(round / 2) * LATEST_MS) / (ROUNDS / 2)
  const [first, second] = round % 2 ? [one, two] : [two, one]
  const begun = first()
  await sleep(apart)
  await Promise.all([begun, second()])
}

test('100 callers of 10 browsers are served in the order in which they came, each by a browser that nobody else has', { timeout: 60_000 }, async () => {
  const { fleet, pool } = await filled(10)
  const served: number[] = []
  const holders = new Map<string, number>()
  const call = async (caller: number) => {
    const id = (await lend(fleet, pool))!
    expect([caller, holders.get(id)]).toEqual([caller, undefined])
    holders.set(id, caller)
    served.push(caller)
    await sleep(caller % 7)
    holders.delete(id)
    // One caller in ten ends its browser instead of giving it back.
    if (caller % 10 === 9) await fleet.takeOut(id, 'released')
    else expect(await giveBack(fleet, pool, id)).toBe(true)
  }
  await Promise.all(Array.from({ length: 100 }, (_, caller) => call(caller)))
  expect(served).toEqual(Array.from({ length: 100 }, (_, caller) => caller))
  await reaches(pool, { warm: 10 })
})

describe('a caller who comes at the same moment as', () => {
  test('a flush gets a browser that lives, and all others are made anew', async () => {
    const { fleet, pool } = await filled(2)
    for (let round = 0; round < ROUNDS; round++) {
      const before = await idsOf(pool, 'warm')
      let id: string | undefined
      await both(
        round,
        async () => (id = await lend(fleet, pool)),
        () => fleet.discards.idle(pool),
      )
      expect([round, (await row(id!)).state, fleet.registry.endpointOf(id!) !== undefined]).toEqual([round, 'running', true])
      await reaches(pool, { running: 1, warm: 1 })
      expect(await giveBack(fleet, pool, id!)).toBe(true)
      expect((await idsOf(pool, 'warm')).filter((one) => one !== id && before.includes(one))).toEqual([])
    }
  })

  test('the end of an instance gets one that lives', async () => {
    const { fleet, pool } = await filled(2)
    for (let round = 0; round < ROUNDS; round++) {
      const [next] = await idsOf(pool, 'warm')
      let id: string | undefined
      await both(
        round,
        async () => (id = await lend(fleet, pool)),
        async () => (await driver.adopt(next!))?.[Symbol.asyncDispose](),
      )
      // If the browser ended after it was lent, the caller has a session that has crashed.
      if (id === next) await sweptAway(fleet, next!)
      else {
        expect([round, (await row(id!)).state]).toEqual([round, 'running'])
        await fleet.takeOut(id!, 'released')
      }
      await reaches(pool, { warm: 2 })
    }
  })

  test('a browser is given back gets it, whenever it comes', async () => {
    const { fleet, pool } = await filled(1)
    for (let round = 0; round < ROUNDS; round++) {
      const id = (await lend(fleet, pool))!
      let next: string | undefined
      await both(
        round,
        async () => (next = await lend(fleet, pool)),
        () => giveBack(fleet, pool, id),
      )
      expect([round, next]).toEqual([round, id])
      expect(await giveBack(fleet, pool, id)).toBe(true)
    }
  })

  test('another one leaves loses nothing by it', async () => {
    const { fleet, pool } = await filled(1)
    const id = (await lend(fleet, pool))!
    for (let round = 0; round < ROUNDS; round++) {
      const leaving = new AbortController()
      const left = lend(fleet, pool, leaving.signal).catch(() => undefined)
      const next = lend(fleet, pool)
      await both(
        round,
        async () => leaving.abort(new Error('left')),
        () => giveBack(fleet, pool, id),
      )
      // A caller who got a browser before it left has to give it back.
      if ((await left) !== undefined) await giveBack(fleet, pool, id)
      expect([round, await next]).toEqual([round, id])
    }
  })
})

describe('a browser that is given back at the same moment as', () => {
  test('it is deleted is ended, and replaced', async () => {
    const { fleet, pool, received } = await filled(1)
    for (let round = 0; round < ROUNDS; round++) {
      const id = (await lend(fleet, pool))!
      let isBack: boolean | undefined
      await both(
        round,
        async () => (isBack = await giveBack(fleet, pool, id)),
        () => fleet.end(id, 'deleted'),
      )
      expect([round, isBack, (await row(id)).state, received.filter(([one]) => one === id).length]).toEqual([round, isBack, 'deleted', 1])
      await reaches(pool, { warm: 1 })
    }
  })

  test('its timeout passes waits for the next caller or is replaced', async () => {
    const { fleet, pool } = await filled(1)
    for (let round = 0; round < ROUNDS; round++) {
      const id = (await lend(fleet, pool))!
      await db
        .updateTable('browsers')
        .set({ last_active_at: new Date(Date.now() - 3_600_000) })
        .where('id', '=', id)
        .execute()
      await both(
        round,
        () => giveBack(fleet, pool, id),
        () => fleet.sweep(),
      )
      await reaches(pool, { warm: 1 })
    }
  })

  test('it is given back again is given back once', async () => {
    const { fleet, pool } = await filled(1)
    for (let round = 0; round < ROUNDS; round++) {
      const id = (await lend(fleet, pool))!
      const isBack: boolean[] = []
      const back = async () => void isBack.push(await giveBack(fleet, pool, id))
      await both(round, back, back)
      expect([round, isBack.toSorted(), await states(pool)]).toEqual([round, [false, true], { warm: 1 }])
    }
  })
})

test('a flush ends what waits when it begins, and nothing that is made or given back later', async () => {
  const { fleet, pool } = await filled(30)
  const lent = (await lend(fleet, pool))!
  const before = await idsOf(pool, 'warm')
  // A browser is ready again as soon as the first one has ended, while the flush still looks for more.
  await Promise.all([fleet.discards.idle(pool), giveBack(fleet, pool, lent)])
  await reaches(pool, { warm: 30 })
  const ended = await db.selectFrom('browsers').select('id').where('pool_id', '=', pool).where('state', '=', 'deleted').execute()
  expect(
    ended
      .map(({ id }) => id)
      .filter((id) => id !== lent)
      .toSorted(),
  ).toEqual(before.toSorted())
})

test('callers who do not wait get what waits for them, however many come at once', async () => {
  const { fleet, pool } = await filled(10)
  const late = AbortSignal.abort(new Error('no more time'))
  const got = await Promise.allSettled(
    Array.from({ length: 14 }, () => fleet.lending.lend(pool, { name: undefined, tags: {}, start_url: undefined }, signal, late)),
  )
  expect(got.filter(({ status }) => status === 'fulfilled')).toHaveLength(10)
})

describe('a pool that is deleted', () => {
  const remove = async (pool: string, isForced: boolean) => {
    await db.updateTable('browser_pools').set({ deleted_at: new Date(), is_forced: isForced }).where('id', '=', pool).execute()
  }

  test('while a caller comes is not deleted, or the caller gets nothing', async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const { fleet, pool, abandon } = await filled(1)
      abandon()
      let id: string | undefined
      let acquired: number | undefined
      await both(
        round,
        async () => (id = await lend(fleet, pool, AbortSignal.timeout(500)).catch(() => undefined)),
        async () => {
          acquired = await deletePool(db, pool, false)
          // This wakes the waiting callers.
          await fleet.pools.changed()
        },
      )
      expect([round, acquired]).toEqual([round, id === undefined ? 0 : 1])
      await fleet.stop()
    }
  })

  test('while a browser is made for it ends that one, also when it was the only pool', async () => {
    const pool = await insertPool(2)
    const gate = Promise.withResolvers<void>()
    const { fleet } = makePoolFleet({ configure: () => gate.promise })
    fleet.refill()
    await reaches(pool, { starting: 2 })
    await remove(pool, false)
    await fleet.pools.changed()
    gate.resolve()
    await reaches(pool, { warm: 2 })
    await fleet.sweep()
    await reaches(pool, {})
  })

  test('tells those who wait, and the boots for them are over before the fleet is', async () => {
    const pool = await insertPool(1)
    const gate = Promise.withResolvers<void>()
    const { fleet, abandon } = makePoolFleet({ configure: () => gate.promise })
    const waiting = lend(fleet, pool)
    waiting.catch(() => {})
    await until('its boot', NOTICE_MS, async () => (await states(pool)).starting === 1)
    await remove(pool, false)
    await fleet.pools.changed()
    await expect(waiting).rejects.toThrow('no browser pool')
    abandon()
    const stopped = fleet.stop()
    let isStopped = false
    void stopped.then(() => (isStopped = true))
    await sleep(50)
    expect(isStopped).toBe(false)
    gate.resolve()
    await stopped
    await reaches(pool, {})
  })
})
