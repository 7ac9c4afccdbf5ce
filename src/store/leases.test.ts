// Duties of replicas: one holder at a time, returned at a stop, taken over after a death, and not after a time without a database.
import { DEFAULT_PROJECT } from '../control/access/projects/resolve.ts'
import type { RootOperationNode } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ownPostgres } from '../../test/support/postgres.ts'
import { silentLog } from '../base/log.ts'
import { newId } from '../base/ids.ts'
import { sleep, until } from '../base/wait.ts'
import { insertStarting, takeOverBrowsers } from '../control/sessions/browsers/rows.ts'
import { openDb, type Db } from './db.ts'
import { LEASE_MS, RENEW_MS, shareLeases, type Leases } from './leases.ts'

const START_MS = 60_000
/** The promise of the issue on replicas: each duty is taken over within this time. */
const TAKEN_MS = 5_000
/** A busy machine may need more time for a check than the lease lasts. */
const SLACK_MS = 10_000

let db: Db
const scope = new AsyncDisposableStack()
beforeAll(async () => {
  const postgres = await ownPostgres('leases', scope)
  db = await openDb(postgres.address, silentLog)
  scope.defer(() => db.destroy())
}, START_MS)
afterAll(() => scope.disposeAsync())

/** A replica whose connection to the database can be cut: to the others it then counts as dead. */
async function replica(host: string, name: string): Promise<{ leases: Leases; away(is: boolean): void }> {
  let isAway = false
  const pass = (node: RootOperationNode) => {
    if (isAway) throw new Error('the database does not answer')
    return node
  }
  const through = db.withPlugin({ transformQuery: ({ node }) => pass(node), transformResult: async ({ result }) => result })
  const leases = await shareLeases(through, host, name, ['warm_pool', 'builds'], async () => {}, silentLog)
  return { leases, away: (is) => (isAway = is) }
}
const holders = (all: Leases[]) => all.filter((leases) => leases.holds('warm_pool')).map(({ replica: name }) => name)
const becomes = (what: string, ms: number, check: () => boolean) => until(what, ms, check, { everyMs: 5 })

test('a duty has one holder at a time; a replica that is cut off loses it before another one takes it, and gets it back only from that one', async () => {
  const one = await replica('a', 'one')
  const two = await replica('a', 'two')
  const all = [one.leases, two.leases]
  expect([one.leases.holds('warm_pool'), one.leases.holds('builds'), two.leases.holds('warm_pool'), two.leases.isAlive]).toEqual([true, true, false, true])
  let most = 0
  const watch = setInterval(() => (most = Math.max(most, holders(all).length)), 1)
  one.away(true)
  const cutAt = performance.now()
  await becomes('the other one to hold it', TAKEN_MS + SLACK_MS, () => two.leases.holds('warm_pool'))
  const took = performance.now() - cutAt
  expect([one.leases.isAlive, one.leases.holds('warm_pool')]).toEqual([false, false])
  one.away(false)
  await becomes('the first one to live again', TAKEN_MS + SLACK_MS, () => one.leases.isAlive)
  await sleep(2 * RENEW_MS)
  expect(holders(all)).toEqual(['two'])
  await two.leases[Symbol.asyncDispose]()
  await becomes('the first one to have it back', TAKEN_MS + SLACK_MS, () => one.leases.holds('warm_pool'))
  clearInterval(watch)
  expect(most).toBe(1)
  // The duration is no promise on a busy machine: only a takeover before the lease has expired would be wrong.
  expect(took).toBeGreaterThan(LEASE_MS - RENEW_MS - 100)
  await one.leases[Symbol.asyncDispose]()
  expect(await db.selectFrom('leases').select('duty').where('scope', '=', 'a').execute()).toEqual([])
})

test('after a time without a database nobody takes over from others that were cut off as well', async () => {
  const one = await replica('b', 'one')
  const two = await replica('b', 'two')
  one.away(true)
  two.away(true)
  await sleep(LEASE_MS + RENEW_MS)
  expect([one.leases.isAlive, two.leases.isAlive, one.leases.holds('warm_pool')]).toEqual([false, false, false])
  // The replica without the duty recovers first.
  two.away(false)
  await becomes('it to live again', SLACK_MS, () => two.leases.isAlive)
  expect(two.leases.mayTakeOver).toBe(false)
  one.away(false)
  await becomes('both to live again', SLACK_MS, () => one.leases.isAlive && two.leases.isAlive)
  await becomes('both to be sure of it', SLACK_MS, () => one.leases.mayTakeOver && two.leases.mayTakeOver)
  expect([one.leases.holds('warm_pool'), two.leases.holds('warm_pool')]).toEqual([true, false])
  await Promise.all([one.leases[Symbol.asyncDispose](), two.leases[Symbol.asyncDispose]()])
})

test('replicas that take over at the same moment never get the same browser, and none of a living replica', async () => {
  const alive = await replica('c', 'alive')
  const takers = await Promise.all(['x', 'y', 'z'].map((name) => replica('c', name)))
  const owner = { project: DEFAULT_PROJECT, name: undefined, tags: {}, options: {} as never, timeoutSeconds: 60 }
  const insert = async (of: string) => {
    const id = newId()
    await insertStarting(db, id, { scope: 'c', replica: of }, null, owner)
    return id
  }
  const dead = await Promise.all(Array.from({ length: 60 }, () => insert('dead')))
  const living = await insert('alive')
  const taken = await Promise.all(takers.map(({ leases }) => takeOverBrowsers(db, 'c', leases)))
  expect(taken.flatMap((rows) => rows.map(({ id }) => id)).toSorted()).toEqual(dead.toSorted())
  expect(await db.selectFrom('browsers').select('replica').where('id', '=', living).executeTakeFirst()).toEqual({ replica: 'alive' })
  await Promise.all([alive, ...takers].map(({ leases }) => leases[Symbol.asyncDispose]()))
})

test('a look for what the dead have left is due at the start, when a replica has come or died, and again after one that has failed', async () => {
  const one = await replica('d', 'one')
  const deaths = one.leases.deaths()
  const looks = () => [deaths.isLookDue(), deaths.isLookDue()]
  expect(looks()).toEqual([true, false])
  const two = await replica('d', 'two')
  await becomes('it to see the other one', SLACK_MS, () => deaths.isLookDue())
  deaths.lookAgain()
  expect(looks()).toEqual([true, false])
  two.away(true)
  await becomes('it to see the death', TAKEN_MS + SLACK_MS, () => deaths.isLookDue())
  one.away(true)
  await becomes('it to be cut off', SLACK_MS, () => !one.leases.isAlive)
  deaths.lookAgain()
  expect(looks()).toEqual([false, false])
  await Promise.all([one.leases[Symbol.asyncDispose](), two.leases[Symbol.asyncDispose]()])
})
