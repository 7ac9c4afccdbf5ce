// Browsers whose rows another replica has closed after a takeover: this replica ends their instances.
import { describe, expect, test } from 'vitest'
import { sharing } from '../../../../../test/support/leases.ts'
import { until } from '../../../../base/wait.ts'
import { db, makeFleet, NOTICE_MS, owner, row, runningIds, signal } from '../fleet.suite.ts'
import { insertPool, makePoolFleet } from './pools.suite.ts'

const change = (id: string, columns: { state?: string; replica?: string }) => db.updateTable('browsers').set(columns).where('id', '=', id).execute()

describe("a pool's browser whose row is closed elsewhere while it is configured", () => {
  test.each(['works', 'fails'])('is ended when that %s', async (how) => {
    const pool = await insertPool(1, 0)
    const leases = sharing()
    const closed = Promise.withResolvers<string>()
    const configure = async ({ id }: { id: string }) => {
      await change(id, { state: 'deleted' })
      await db.updateTable('browser_pools').set({ size: 0 }).where('id', '=', pool).execute()
      closed.resolve(id)
      if (how === 'fails') throw new Error('its profile cannot be loaded')
    }
    const { fleet } = makePoolFleet({ leases, configure })
    fleet.refill()
    const id = await closed.promise
    await until('its instance to go', NOTICE_MS, async () => !(await runningIds()).includes(id))
  })
})

describe('a browser that its replica does not find among its rows', () => {
  test('is ended when its row is closed', async () => {
    const { fleet } = makeFleet(0, undefined, undefined, undefined, { leases: sharing() })
    const id = await fleet.start(owner(), signal)
    await change(id, { state: 'deleted' })
    await fleet.sweep()
    await until('its instance to go', NOTICE_MS, async () => !(await runningIds()).includes(id))
    expect(fleet.registry.endpointOf(id)).toBeUndefined()
  })

  test('goes on when another replica watches it', async () => {
    const { fleet } = makeFleet(0, undefined, undefined, undefined, { leases: sharing() })
    const id = await fleet.start(owner(), signal)
    await change(id, { replica: 'another' })
    await fleet.sweep()
    await until('it to be left', NOTICE_MS, () => fleet.registry.endpointOf(id) === undefined)
    expect([await runningIds(), (await row(id)).state]).toEqual([[id], 'running'])
  })
})
