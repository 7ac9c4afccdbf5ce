// Pools of a fleet over the fake driver, without the rules of browser-pools/: their rows, how their browsers are made, and how callers use them. For the tests
// of this file's importer.
import { afterEach } from 'vitest'
import { newId } from '../../../../base/ids.ts'
import { abortable, until } from '../../../../base/wait.ts'
import type { Driver } from '../../../../instances/driver.ts'
import { DEFAULT_PROJECT } from '../../../access/projects/resolve.ts'
import { db, driver, HOST, makeFleet, NOTICE_MS, owner, row, signal } from '../fleet.suite.ts'
import type { Fleet } from '../fleet.ts'
import type { Kind } from './kinds.ts'
import type { FleetSettings, PoolBoot, PoolSource } from './settings.ts'

/** A rate at which every ended browser is replaced at once. */
const FAST = 10_000_000

afterEach(async () => void (await db.deleteFrom('browser_pools').execute()))

export async function insertPool(size: number, rate = FAST): Promise<string> {
  const id = newId()
  const config = JSON.stringify({ fill_rate_per_minute: rate, timeout_seconds: 60 })
  await db.insertInto('browser_pools').values({ id, scope: HOST, project_id: DEFAULT_PROJECT, name: null, size, config, resolved: '{}' }).execute()
  return id
}

export const resize = (id: string, size: number) => db.updateTable('browser_pools').set({ size }).where('id', '=', id).execute()

/** The source of pools for a fleet. `configure` configures a booted browser. */
export const source = (configure: PoolBoot['configure'] = async () => {}): PoolSource => ({
  async plan(pool) {
    const { options, ...ownership } = owner()
    const { viewport, maxScreen } = options
    return { ownership: { ...ownership, options, pool, generation: 1, baseline: { options } }, spec: { viewport, maxScreen }, configure }
  },
  made() {},
})

interface PoolFleetSettings extends Partial<FleetSettings> {
  warm?: number | Kind[]
  over?: typeof driver
  through?: typeof db
  configure?: PoolBoot['configure']
}

/** A fleet with pools and its own scope. Otherwise like {@link makeFleet}. */
export function makePoolFleet({ warm = 0, over = driver, through = db, configure, ...more }: PoolFleetSettings = {}) {
  return makeFleet(warm, over, through, undefined, { pools: source(configure), ...more })
}

export const lend = async (fleet: Fleet, pool: string, within = signal, name?: string): Promise<string | undefined> =>
  (await fleet.lending.lend(pool, { name, tags: {}, start_url: undefined }, within))?.id

/** Takes a browser away from its present caller; false when no caller has it. */
export async function takeBack(fleet: Fleet, id: string): Promise<boolean> {
  const row = await db.selectFrom('browsers').select(['id', 'lease']).where('id', '=', id).executeTakeFirst()
  return row !== undefined && (await fleet.lending.takeBack(row)) !== undefined
}

/** Gives a browser back, in the fleet only. */
export const giveBack = async (fleet: Fleet, pool: string, id: string): Promise<boolean> =>
  (await takeBack(fleet, id)) && (await fleet.lending.putBack({ id, pool_id: pool }))

/** How many browsers of a pool are in which state. */
export async function states(pool: string): Promise<Record<string, number>> {
  const rows = await db.selectFrom('browsers').select('state').where('pool_id', '=', pool).where('state', '<>', 'deleted').execute()
  return Object.fromEntries(Object.entries(Object.groupBy(rows, ({ state }) => state)).map(([state, list]) => [state, list!.length]))
}

/** Waits until the pool has exactly these numbers of browsers in these states. */
export async function reaches(pool: string, wanted: Record<string, number>): Promise<void> {
  const sorted = (counts: Record<string, number>) => JSON.stringify(Object.entries(counts).toSorted())
  let now = {}
  const isThere = async () => sorted((now = await states(pool))) === sorted(wanted)
  await until('a pool', NOTICE_MS, isThere, { everyMs: 2 }).catch((error: unknown) => {
    throw new Error(`the pool has ${JSON.stringify(now)} in place of ${JSON.stringify(wanted)}`, { cause: error })
  })
}
export const idsOf = async (pool: string, state: 'warm' | 'running'): Promise<string[]> =>
  (await db.selectFrom('browsers').select('id').where('pool_id', '=', pool).where('state', '=', state).orderBy('made_at').execute()).map(({ id }) => id)

/**
 * A driver whose starts wait until `next` lets the oldest one continue. `order` has the pool of each start in turn; "warm" for a warm browser, "own" for one
 * that a caller waits for. `gates` are the waiting starts, `most` is the largest number of concurrent starts.
 */
export function gated() {
  const gates: (() => void)[] = []
  const order: string[] = []
  let most = 0
  let underWay = 0
  const gate: Driver = {
    ...driver,
    async start(spec, stop) {
      most = Math.max(most, ++underWay)
      const { pool_id: pool, warm_kind: kind } = await row(spec.id)
      order.push(pool ?? (kind === null ? 'own' : 'warm'))
      await abortable(new Promise<void>((resolve) => gates.push(resolve)), stop).finally(() => underWay--)
      return driver.start(spec, stop)
    },
  }
  const next = async () => {
    await until('a boot', NOTICE_MS, () => gates.length > 0)
    gates.shift()!()
  }
  return { gate, gates, order, next, most: () => most }
}

const LARGE = { width: 3000, height: 2000, refresh_rate: 60 }
/** A caller that no kind serves. */
export const largeOwner = () => ({ ...owner(), options: { ...owner().options, viewport: LARGE, maxScreen: LARGE } })
