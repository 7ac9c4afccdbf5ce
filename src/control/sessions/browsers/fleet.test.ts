// The fleet over the fake driver: recovery after a crash, reasons for the end of a browser, and how the end is recorded.
import { adoptAll } from '../../../instances/driver.ts'
import { existsSync } from 'node:fs'
import { describe, expect, test, vi } from 'vitest'
import { newId } from '../../../base/ids.ts'
import { Unavailable } from '../../../base/unavailable.ts'
import { until } from '../../../base/wait.ts'
import type { Driver, Exit, Instance } from '../../../instances/driver.ts'
import { db, driver, HOST, makeFleet, NOTICE_MS, owner, paths, reconcile, row, runningIds, signal, warmIds, way } from './fleet.suite.ts'
import type { EndReason } from './end-step.ts'
import { DEFAULT_VIEWPORT } from './options/contract.ts'
import { moveBrowser, type BrowserState } from './lifecycle.ts'
import { insertStarting } from './rows.ts'

/** A row as a killed service leaves it. */
async function leftRow(state: BrowserState, host = HOST): Promise<string> {
  const id = newId()
  await insertStarting(db, id, { scope: host, replica: 'the last service' }, null, owner())
  if (state !== 'starting') await moveBrowser(db, id, state === 'stopping' ? 'running' : state, null, { created_at: new Date(), last_active_at: new Date() })
  if (state === 'stopping') await moveBrowser(db, id, 'stopping', 'deleted')
  return id
}

describe('a browser', () => {
  test('starts, runs and ends, and its log has each step', async () => {
    const { fleet, received } = makeFleet()
    const id = await fleet.start(owner(), signal)
    expect([await row(id), await runningIds(), fleet.registry.sessions]).toMatchObject([{ state: 'running', scope: HOST }, [id], 1])
    expect(await fleet.end(id, 'deleted')).toBe(true)
    expect(await row(id)).toMatchObject({ state: 'deleted', end_reason: 'deleted', deleted_at: expect.any(Date) as Date })
    expect([await way(id), received, await runningIds(), fleet.registry.sessions]).toEqual([
      ['starting', 'running', 'stopping', 'deleted'],
      [[id, 'deleted']],
      [],
      0,
    ])
  })

  test('is removed with its row if its caller leaves while it starts', async () => {
    const { fleet } = makeFleet()
    await expect(fleet.start(owner('mine'), AbortSignal.abort(new Error('the caller left')))).rejects.toThrow('the caller left')
    expect(await runningIds()).toEqual([])
    expect(await db.selectFrom('browsers').select(['state', 'end_reason']).execute()).toEqual([{ state: 'deleted', end_reason: 'abandoned' }])
    await fleet.end(await fleet.start(owner('mine'), signal), 'deleted')
  })

  test('that ends by itself is recorded as crashed, its clients are told, and nothing of it is left', async () => {
    const { fleet, received } = makeFleet()
    const id = await fleet.start(owner(), signal)
    await (await adoptAll(driver))[0]![Symbol.asyncDispose]()
    await until('the crash to be noticed', NOTICE_MS, async () => (await row(id)).state === 'deleted')
    expect([(await row(id)).end_reason, await way(id), received, existsSync(paths.instance(id))]).toEqual([
      'crashed',
      ['starting', 'running', 'failed', 'deleted'],
      [[id, 'crashed']],
      false,
    ])
    // The row changes a moment earlier.
    await expect.poll(() => fleet.registry.sessions).toBe(0)
  })

  test.each<[Omit<Exit, 'reason'>, EndReason]>([
    [{ limit: 'memory' }, 'memory_limit'],
    [{ limit: 'disk' }, 'disk_limit'],
    [{ cause: 'evicted' }, 'evicted'],
    [{ cause: 'node_lost' }, 'node_lost'],
    [{ cause: 'browser_failed' }, 'browser_failed'],
    [{}, 'crashed'],
  ])('whose driver says that %j has ended it is recorded and told as %s', async (because, reason) => {
    const exit = Promise.withResolvers<Exit>()
    const ending: Driver = {
      ...driver,
      start: async (...how) => Object.assign(await driver.start(...how), { exited: exit.promise }),
    }
    const { fleet, received } = makeFleet(0, ending)
    const id = await fleet.start(owner(), signal)
    exit.resolve({ reason: 'as the engine says', ...because })
    await until('the end', NOTICE_MS, async () => (await row(id)).state === 'deleted')
    expect([(await row(id)).end_reason, received]).toEqual([reason, [[id, reason]]])
  })

  test('that an engine makes after its start was given up is removed, once a while, and no other is', async () => {
    const { fleet } = makeFleet()
    const id = await fleet.start(owner(), signal)
    const stray = await driver.start({ id: newId(), viewport: DEFAULT_VIEWPORT, maxScreen: DEFAULT_VIEWPORT, apiPorts: [] }, signal)
    await fleet.sweep()
    expect((await runningIds()).toSorted()).toEqual([id, stray.id].toSorted())
    const later = performance.now() + 301_000
    vi.spyOn(performance, 'now').mockReturnValue(later)
    await fleet.sweep()
    vi.restoreAllMocks()
    await until('the end of the stray one', NOTICE_MS, async () => (await runningIds()).length === 1)
    expect(await runningIds()).toEqual([id])
  })

  test('that is only prepared is left to its replica while that lives, and removed when that is dead', async () => {
    const strays = await Promise.all(
      Array.from({ length: 3 }, () => driver.start({ id: newId(), viewport: DEFAULT_VIEWPORT, maxScreen: DEFAULT_VIEWPORT, apiPorts: [] }, signal)),
    )
    const owners = new Map<string, string | undefined>()
    const found = async () => (await driver.found()).map(({ id }) => ({ id, replica: owners.get(id), isPrepared: true }))
    const { fleet } = makeFleet(0, { ...driver, found })
    for (const [at, replica] of [fleet.replica, 'a dead one', undefined].entries()) owners.set(strays[at]!.id, replica)
    await fleet.adopt()
    expect(await runningIds()).toEqual([strays[0]!.id])
    await strays[0]![Symbol.asyncDispose]()
  })

  test('that is unused for its timeout is ended by the sweep, and no other is', async () => {
    const { fleet, received } = makeFleet()
    const [idle, used] = [await fleet.start(owner(), signal), await fleet.start(owner(), signal)]
    await db
      .updateTable('browsers')
      .set({ last_active_at: new Date(Date.now() - 61_000) })
      .where('id', '=', idle)
      .execute()
    await db
      .updateTable('browsers')
      .set({ last_active_at: new Date(Date.now() - 30_000) })
      .where('id', '=', used)
      .execute()
    await fleet.sweep()
    await until('the end of the idle one', NOTICE_MS, async () => (await row(idle)).state === 'deleted')
    expect([await row(idle), await row(used)]).toMatchObject([{ state: 'deleted', end_reason: 'timeout' }, { state: 'running' }])
    expect(received).toEqual([[idle, 'timeout']])
  })
})

describe('after a crash, the next service', () => {
  test('adopts running sessions and warm browsers, and can end them', async () => {
    const before = makeFleet(1).fleet
    before.refill()
    await until('a warm browser', NOTICE_MS, async () => (await warmIds()).length === 1)
    const id = await before.start(owner('mine'), signal)
    const [warm] = await warmIds()
    const { fleet } = makeFleet()
    await reconcile(fleet)
    expect([await runningIds(), fleet.registry.sessions]).toEqual([[id, warm!].toSorted(), 1])
    expect([await row(id), await row(warm!)]).toMatchObject([{ state: 'running', name: 'mine' }, { state: 'warm' }])
    expect(await fleet.end(id, 'deleted')).toBe(true)
    expect(await runningIds()).toEqual([warm])
  })

  test('ends a ready browser whose agent is older, and keeps a session with such an agent', async () => {
    const before = makeFleet(1).fleet
    before.refill()
    await until('a warm browser', NOTICE_MS, async () => (await warmIds()).length === 1)
    const id = await before.start(owner('mine'), signal)
    const asOlder = (instance: Instance) =>
      Object.assign(Object.create(instance) as Instance, { agent: { ...instance.agent, older: { version: '0.0.9', lacks: [] } }, exited: instance.exited })
    const adopt: Driver['adopt'] = async (one) => {
      const instance = await driver.adopt(one)
      return instance && asOlder(instance)
    }
    const { fleet } = makeFleet(0, Object.assign(Object.create(driver) as Driver, { adopt }))
    await reconcile(fleet)
    expect([await runningIds(), await warmIds(), (await row(id)).state]).toEqual([[id], [], 'running'])
  })

  test('does not count its downtime towards timeouts', async () => {
    const id = await makeFleet().fleet.start(owner(), signal)
    await db
      .updateTable('browsers')
      .set({ last_active_at: new Date(Date.now() - 3_600_000) })
      .where('id', '=', id)
      .execute()
    const { fleet } = makeFleet()
    await reconcile(fleet)
    await fleet.sweep()
    expect((await row(id)).state).toBe('running')
  })

  test.each([
    ['starting', 'lost'],
    ['warm', 'lost'],
    ['running', 'lost'],
    ['stopping', 'deleted'],
    ['failed', 'lost'],
  ] as [BrowserState, string][])('closes a row that was left %s without an instance, as %s', async (state, reason) => {
    const id = await leftRow(state)
    await reconcile(makeFleet().fleet)
    expect(await row(id)).toMatchObject({ state: 'deleted', end_reason: reason, deleted_at: expect.any(Date) as Date })
  })

  test('ends an instance without a row, and one that was still starting', async () => {
    const stray = await driver.start({ id: newId(), viewport: DEFAULT_VIEWPORT, maxScreen: DEFAULT_VIEWPORT, apiPorts: [] }, signal)
    const starting = await leftRow('starting')
    await driver.start({ id: starting, viewport: DEFAULT_VIEWPORT, maxScreen: DEFAULT_VIEWPORT, apiPorts: [] }, signal)
    await reconcile(makeFleet().fleet)
    expect([await runningIds(), existsSync(paths.instance(stray.id)), (await row(starting)).state]).toEqual([[], false, 'deleted'])
  })

  test('ignores the browsers of other hosts, also when it stops', async () => {
    const elsewhere = await leftRow('running', 'elsewhere')
    const { fleet } = makeFleet()
    await reconcile(fleet)
    await fleet.sweep()
    await fleet.stop()
    expect((await row(elsewhere)).state).toBe('running')
  })
})

describe('warm browsers', () => {
  test('are there, and the service knows it, although the database did not confirm the record of one', async () => {
    const writes = new WeakSet<object>()
    let isLost = false
    const losing = db.withPlugin({
      transformQuery({ node, queryId }) {
        const text = JSON.stringify(node)
        if (text.includes('update') && text.includes('"warm"')) writes.add(queryId)
        return node
      },
      async transformResult({ result, queryId }) {
        if (isLost || !writes.has(queryId)) return result
        isLost = true
        throw new Unavailable('the database does not answer', 1)
      },
    })
    const { fleet } = makeFleet(1, driver, losing)
    fleet.refill()
    await until('the record of a warm browser', NOTICE_MS, () => isLost)
    const lost = () => db.selectFrom('browsers').select('id').where('end_reason', '=', 'abandoned').execute()
    await until('its end', NOTICE_MS, async () => (await lost()).length === 1)
    await until('another one', NOTICE_MS, async () => (await warmIds()).length === 1)
    await until('the service to know', NOTICE_MS, () => fleet.filling.isWell)
    expect(await runningIds()).toEqual(await warmIds())
    expect(await lost()).toHaveLength(1)
    await fleet.stop()
  })

  test('end with the service, like sessions', async () => {
    const { fleet, received } = makeFleet(1)
    fleet.refill()
    await until('a warm browser', NOTICE_MS, async () => (await warmIds()).length === 1)
    const id = await fleet.start(owner(), signal)
    await fleet.stop()
    expect([await runningIds(), (await row(id)).end_reason, received.find(([ended]) => ended === id)]).toEqual([[], 'shutdown', [id, 'shutdown']])
    expect(await db.selectFrom('browsers').select('id').where('deleted_at', 'is', null).execute()).toEqual([])
  })
})
