// The fleet while the database does not answer: browsers that end or fail then are cleaned up when it is back.
import { adoptAll } from '../../../instances/driver.ts'
import { existsSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { silentLog, type Log } from '../../../base/log.ts'
import { Unavailable } from '../../../base/unavailable.ts'
import { until } from '../../../base/wait.ts'
import type { Db } from '../../../store/db.ts'
import { watchActivity } from './activity.ts'
import { db, driver, makeFleet, NOTICE_MS, owner, paths, row, runningIds, signal, sweptAway, warmIds } from './fleet.suite.ts'

/** A database that can be switched off: it then refuses every query. */
function interruptible(): { through: Db; away: (is: boolean) => void } {
  let isAway = false
  const refuse = <T>(value: T): T => {
    if (isAway) throw new Unavailable('the database does not answer', 1)
    return value
  }
  return {
    through: db.withPlugin({ transformQuery: ({ node }) => refuse(node), transformResult: async ({ result }) => refuse(result) }),
    away: (is) => (isAway = is),
  }
}

describe('while the database is away', () => {
  test.each(['warm', 'running'])(
    'a %s browser that ends by itself is out of use, is not counted as ready, and is removed when the database is back',
    async (state) => {
      const { through, away } = interruptible()
      const { fleet, registry, received } = makeFleet(state === 'warm' ? 1 : 0, driver, through)
      if (state === 'warm') fleet.refill()
      else await fleet.start(owner(), signal)
      const id = await until(
        'the browser',
        NOTICE_MS,
        async () => (await db.selectFrom('browsers').selectAll().where('state', '=', state).executeTakeFirst())?.id,
      )
      expect(registry.ready).toBe(state === 'warm' ? 1 : 0)
      away(true)
      const [instance] = await adoptAll(driver)
      await instance![Symbol.asyncDispose]()
      await instance!.exited
      expect([fleet.registry.endpointOf(id), registry.ready]).toEqual([undefined, 0])
      if (state === 'warm') expect(registry.claim(id)).toBe(false)
      away(false)
      await sweptAway(fleet, id)
      expect([(await row(id)).end_reason, received, existsSync(paths.instance(id))]).toEqual(['crashed', [[id, 'crashed']], false])
      if (state === 'warm') await until('another warm browser', NOTICE_MS, async () => (await warmIds()).length === 1)
    },
  )

  test('a start that fails keeps no name', async () => {
    const { through, away } = interruptible()
    const { fleet } = makeFleet(0, { ...driver, start: async (...args) => driver.start(...args).finally(() => away(true)) }, through)
    await expect(fleet.start(owner('mine'), signal)).rejects.toThrow('the database does not answer')
    away(false)
    const names = () => db.selectFrom('browsers').select(['state']).where('deleted_at', 'is', null).execute()
    expect(await names()).toHaveLength(1)
    for (let sweeps = 0; sweeps < 2; sweeps++) await fleet.sweep()
    await until('the row to be closed', NOTICE_MS, async () => (await names()).length === 0)
    await until('the end of its instance', NOTICE_MS, async () => (await runningIds()).length === 0)
  })

  test('a session that is used then does not time out when the database is back', async () => {
    const { through, away } = interruptible()
    const { fleet } = makeFleet(0, driver, through)
    const id = await fleet.start(owner(), signal)
    await using leaving = new AsyncDisposableStack()
    const complaints: string[] = []
    const log: Log = { ...silentLog, error: (_, text) => void complaints.push(text) }
    const activity = watchActivity(through, fleet, log)
    leaving.use(activity.watch())
    away(true)
    activity.hold(id)()
    await db
      .updateTable('browsers')
      .set({ last_active_at: new Date(Date.now() - 3_600_000) })
      .where('id', '=', id)
      .execute()
    await until('a sweep without a database', NOTICE_MS, () => complaints.length > 0)
    away(false)
    await until('the use to be recorded', NOTICE_MS, async () => (await row(id)).last_active_at!.getTime() > Date.now() - 60_000)
    expect((await row(id)).state).toBe('running')
  })

  test('a start that is under way is left alone by the sweep', async () => {
    const hold = Promise.withResolvers<void>()
    const { fleet } = makeFleet(0, { ...driver, start: async (...args) => hold.promise.then(() => driver.start(...args)) })
    const starting = fleet.start(owner(), signal)
    await until('its row', NOTICE_MS, async () => (await db.selectFrom('browsers').selectAll().execute()).length === 1)
    for (let sweeps = 0; sweeps < 3; sweeps++) await fleet.sweep()
    hold.resolve()
    expect((await row(await starting)).state).toBe('running')
  })
})
