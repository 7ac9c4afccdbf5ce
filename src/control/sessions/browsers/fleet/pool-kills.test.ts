// Pools after `kill -9` of the service between any two of its statements: the state that the next service finds and what it does.
import { afterEach, describe, expect, test } from 'vitest'
import { until } from '../../../../base/wait.ts'
import type { Db } from '../../../../store/db.ts'
import { db, driver, NOTICE_MS, reconcile, row, runningIds, signal } from '../fleet.suite.ts'
import type { Fleet } from '../fleet.ts'
import { takeBack, giveBack, idsOf, insertPool, lend, makePoolFleet, reaches, states } from './pools.suite.ts'

const never = (): Promise<never> => new Promise(() => {})
const buried: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const bury of buried.splice(0)) await bury()
})

/**
 * A database for a service that is killed. After `at` is called with a text, the first statement that contains it is executed but never answered, and no later
 * statement is executed. `isDead` resolves then.
 */
function mortal() {
  const compiler = db.getExecutor()
  const end = Promise.withResolvers<never>()
  end.promise.catch(() => {})
  const dead = Promise.withResolvers<void>()
  let text: string | undefined
  let isDead = false
  let last: object | undefined
  const through: Db = db.withPlugin({
    transformQuery({ node, queryId }) {
      if (isDead) throw new Error('the service was killed')
      const { sql, parameters } = compiler.compileQuery(node, queryId)
      if (text !== undefined && JSON.stringify([sql, parameters]).includes(text)) {
        isDead = true
        last = queryId
      }
      return node
    },
    async transformResult({ result, queryId }) {
      if (queryId !== last) return result
      dead.resolve()
      return end.promise
    },
  })
  const bury = () => end.reject(new Error('the service was killed'))
  return { through, at: (found: string) => (text = found), isDead: dead.promise, kill: () => (isDead = true), bury }
}

/** A service that is killed later. Its pool of `size` is full, and a caller has one of the browsers. */
async function doomed(size: number, settings: Parameters<typeof makePoolFleet>[0] = {}) {
  const pool = await insertPool(size)
  const { bury, ...death } = mortal()
  const { fleet, abandon } = makePoolFleet({ through: death.through, ...settings })
  abandon()
  fleet.refill()
  await reaches(pool, { warm: size })
  const leased = (await lend(fleet, pool))!
  buried.push(async () => {
    bury()
    await fleet.stop()
  })
  return { pool, fleet, leased, ...death }
}

/** The next service, as it starts. */
async function next(): Promise<Fleet> {
  const { fleet } = makePoolFleet()
  await reconcile(fleet)
  fleet.refill()
  await fleet.sweep()
  return fleet
}

/** The promise after any kill: the caller's browser continues, and the pool becomes full. Returns the browsers that wait in it. */
async function isWhole(fleet: Fleet, pool: string, size: number, leased: string): Promise<string[]> {
  await reaches(pool, { running: 1, warm: size - 1 })
  expect([(await row(leased)).state, fleet.registry.endpointOf(leased) !== undefined, fleet.registry.sessions]).toEqual(['running', true, 0])
  const idle = await idsOf(pool, 'warm')
  expect(await runningIds()).toEqual([leased, ...idle].toSorted())
  return idle
}

describe('a service that is killed', () => {
  test('while nothing goes on leaves leased browsers to their callers and idle ones to the next', async () => {
    const { pool, leased, kill } = await doomed(3)
    const idle = await idsOf(pool, 'warm')
    kill()
    const fleet = await next()
    expect(await isWhole(fleet, pool, 3, leased)).toEqual(idle)
    expect(await lend(fleet, pool)).toBe(idle[0])
    expect(await giveBack(fleet, pool, leased)).toBe(true)
    expect(await idsOf(pool, 'warm')).toEqual([idle[1], leased])
  })

  test.each(['starts', 'configures'])('while it %s a browser leaves none of it, and another one is made', async (what) => {
    let isSlow = false
    const reached = Promise.withResolvers<void>()
    const hang = async () => {
      if (!isSlow) return
      reached.resolve()
      await never()
    }
    const over: typeof driver = {
      ...driver,
      async start(...args) {
        const instance = await driver.start(...args)
        if (what === 'starts') await hang()
        return instance
      },
    }
    const pool = await insertPool(2)
    const { through, kill } = mortal()
    const { fleet, abandon } = makePoolFleet({ through, over, configure: what === 'configures' ? hang : undefined })
    abandon()
    fleet.refill()
    await reaches(pool, { warm: 2 })
    const leased = (await lend(fleet, pool))!
    const [ended] = await idsOf(pool, 'warm')
    isSlow = true
    await fleet.takeOut(ended!, 'deleted')
    await reached.promise
    const [left] = (await db.selectFrom('browsers').select('id').where('state', '=', 'starting').execute()).map(({ id }) => id)
    kill()
    expect(await isWhole(await next(), pool, 2, leased)).not.toContain(left)
    expect(await row(left!)).toMatchObject({ state: 'deleted', end_reason: 'lost' })
  })

  test('when a browser has come up finds it idle', async () => {
    const { pool, fleet, leased, at, isDead } = await doomed(2)
    const [ended] = await idsOf(pool, 'warm')
    // This text is in the statement that moves a row to "warm".
    at('"warm",null')
    void fleet.takeOut(ended!, 'deleted')
    await isDead
    const [made] = await idsOf(pool, 'warm')
    expect(await isWhole(await next(), pool, 2, leased)).toEqual([made])
  })

  test('when it has lent a browser leaves that to a caller, for whom it ends by its timeout', async () => {
    const { pool, fleet, leased, at, isDead } = await doomed(3)
    at('"lent"')
    lend(fleet, pool).catch(() => {})
    await isDead
    const after = await next()
    await reaches(pool, { running: 2, warm: 1 })
    const [lost] = (await idsOf(pool, 'running')).filter((id) => id !== leased)
    await db
      .updateTable('browsers')
      .set({ last_active_at: new Date(Date.now() - 3_600_000) })
      .where('id', '=', lost!)
      .execute()
    await after.sweep()
    expect(await isWhole(after, pool, 3, leased)).not.toContain(lost)
  })

  test('while it puts a browser back ends that one, and makes another', async () => {
    const { pool, fleet, leased, kill } = await doomed(3)
    const given = (await lend(fleet, pool))!
    expect(await takeBack(fleet, given)).toBe(true)
    kill()
    expect(await isWhole(await next(), pool, 3, leased)).not.toContain(given)
    expect(await row(given)).toMatchObject({ state: 'deleted', end_reason: 'lost' })
  })

  test('when it has put a browser back finds it idle', async () => {
    const { pool, fleet, leased, at, isDead } = await doomed(3)
    const given = (await lend(fleet, pool))!
    expect(await takeBack(fleet, given)).toBe(true)
    at('"warm","given back"')
    void fleet.lending.putBack({ id: given, pool_id: pool }).catch(() => {})
    await isDead
    expect((await isWhole(await next(), pool, 3, leased)).at(-1)).toBe(given)
  })

  test('within a flush ends what that had begun to end, and leaves the others', async () => {
    const { pool, fleet, leased, at, isDead } = await doomed(4)
    const idle = await idsOf(pool, 'warm')
    at('"surplus"')
    void fleet.discards.idle(pool).catch(() => {})
    await isDead
    const after = await isWhole(await next(), pool, 4, leased)
    expect([after.slice(0, 2), after.includes(idle[0]!)]).toEqual([idle.slice(1), false])
  })

  test.each([true, false])(
    'when it has deleted a pool (with force: %s) ends its idle browsers, and those of callers only if it was forced',
    async (isForced) => {
      const { pool, leased, kill } = await doomed(3)
      await db.updateTable('browser_pools').set({ deleted_at: new Date(), is_forced: isForced }).where('id', '=', pool).execute()
      kill()
      await next()
      await reaches(pool, isForced ? {} : { running: 1 })
      expect([await runningIds(), (await row(leased)).end_reason]).toEqual(isForced ? [[], 'deleted'] : [[leased], null])
    },
  )

  test('is no reason to wait for the rate: the pool is filled again at once', async () => {
    const pool = await insertPool(3, 0)
    const { through, kill } = mortal()
    const { fleet, abandon } = makePoolFleet({ through })
    abandon()
    fleet.refill()
    await reaches(pool, { warm: 3 })
    kill()
    for (const id of await idsOf(pool, 'warm')) await (await driver.adopt(id))?.[Symbol.asyncDispose]()
    await next()
    await reaches(pool, { warm: 3 })
  })
})

test('callers who wait when a service stops are told, and nobody gets a browser that ends', async () => {
  const pool = await insertPool(1)
  const { fleet } = makePoolFleet()
  fleet.refill()
  await reaches(pool, { warm: 1 })
  const id = (await lend(fleet, pool))!
  const waiting = lend(fleet, pool, signal)
  waiting.catch(() => {})
  await until('the caller to wait', NOTICE_MS, () => fleet.pools.state.waiting === 1)
  await Promise.all([fleet.stop(), giveBack(fleet, pool, id).catch(() => false)])
  await expect(waiting).rejects.toThrow('the service stops')
  expect([await states(pool), await runningIds()]).toEqual([{}, []])
})

test('a browser that the database lends in the moment of a stop is not given to its caller', async () => {
  const pool = await insertPool(1)
  const lent = Promise.withResolvers<void>()
  let isHeld = false
  const through = db.withPlugin({
    transformQuery: ({ node }) => node,
    transformResult: async ({ result }) => (isHeld && (await lent.promise), result),
  })
  const { fleet } = makePoolFleet({ through })
  fleet.refill()
  await reaches(pool, { warm: 1 })
  isHeld = true
  const caller = lend(fleet, pool, signal)
  caller.catch(() => {})
  await reaches(pool, { running: 1 })
  const stopped = fleet.stop()
  isHeld = false
  lent.resolve()
  await stopped
  await expect(caller).rejects.toThrow('the service stops')
  expect([await states(pool), await runningIds()]).toEqual([{}, []])
})
