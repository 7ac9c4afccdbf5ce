// Moves along a lifecycle: of many callers that request the same move, one succeeds, and the log always agrees with the row.
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { newId } from '../base/ids.ts'
import { lifecycle } from '../base/lifecycle.ts'
import { silentLog } from '../base/log.ts'
import { openDb, type Db } from './db.ts'
import { firstMover, mover, type MoveLog } from './moves.ts'
import { ownPostgres } from '../../test/support/postgres.ts'

const table = lifecycle({ queued: ['in_progress', 'failed'], in_progress: ['running', 'failed'], running: ['stopped'], stopped: [], failed: [] })
const log: MoveLog = { table: 'app_events', columns: { deployment_id: sql`t.id`, kind: sql`'state'` }, topic: sql`t.id` }
const moveFirst = firstMover<{ id: string; state: string }, (typeof table.states)[number]>({ table: 'deployments', lifecycle: table, log })
const move = mover({ table: 'deployments', lifecycle: table, log })

const scope = new AsyncDisposableStack()
let db: Db
beforeAll(async () => {
  const postgres = await ownPostgres('moves', scope)
  db = await openDb(postgres.address, silentLog)
  scope.defer(() => db.destroy())
})
afterAll(() => scope.disposeAsync())

async function queued(): Promise<string> {
  const id = newId()
  await db
    .insertInto('deployments')
    .values({ id, state: 'queued', region: 'aws.us-east-1a' } as never)
    .execute()
  return id
}
const row = (id: string) => db.selectFrom('deployments').selectAll().where('id', '=', id).executeTakeFirstOrThrow()
const events = async (id: string) =>
  (await db.selectFrom('app_events').selectAll().where('deployment_id', '=', id).orderBy('id').execute()).map(({ state, reason }) => ({ state, reason }))

describe('a state transition', () => {
  test('returns the old state, changes the row, and logs it with its reason', async () => {
    const id = await queued()
    expect(await move(db, id, 'in_progress', null)).toBe('queued')
    expect(await move(db, id, 'failed', 'it broke', { status_reason: 'it broke' })).toBe('in_progress')
    expect(await row(id)).toMatchObject({ state: 'failed', status_reason: 'it broke' })
    expect(await events(id)).toEqual([
      { state: 'in_progress', reason: null },
      { state: 'failed', reason: 'it broke' },
    ])
  })

  test('that the lifecycle does not allow changes and logs nothing', async () => {
    const id = await queued()
    for (const to of ['running', 'stopped', 'queued'] as const) expect(await move(db, id, to, 'no', { status_reason: 'no' })).toBeUndefined()
    expect(await row(id)).toMatchObject({ state: 'queued', status_reason: null })
    expect(await events(id)).toEqual([])
  })

  test('of an unknown row returns nothing', async () => {
    expect(await move(db, newId(), 'failed', null)).toBeUndefined()
  })

  test('writes row and log in one transaction: neither is ever visible without the other', async () => {
    const id = await queued()
    await move(db, id, 'in_progress', null)
    const { rows } = await sql<{
      row: string
      event: string
    }>`select d.xmin::text as row, e.xmin::text as event from deployments d join app_events e on e.deployment_id = d.id where d.id = ${id}`.execute(db)
    expect(rows).toHaveLength(1)
    expect(rows[0]!.row).toBe(rows[0]!.event)
  })

  test('whose log entry cannot be written does not happen', async () => {
    const id = await queued()
    await sql`create function refuse() returns trigger language plpgsql as $$ begin raise exception 'no log'; end $$`.execute(db)
    await sql`create trigger refuse before insert on app_events for each row execute function refuse()`.execute(db)
    try {
      await expect(move(db, id, 'in_progress', null)).rejects.toThrow('no log')
    } finally {
      await sql`drop trigger refuse on app_events`.execute(db)
    }
    expect((await row(id)).state).toBe('queued')
  })
})

describe('concurrent state transitions', () => {
  test('to the same state: one succeeds, and there is one event', async () => {
    for (let round = 0; round < 20; round++) {
      const id = await queued()
      const outcomes = await Promise.all(Array.from({ length: 8 }, () => move(db, id, 'in_progress', null)))
      expect(outcomes.filter((before) => before !== undefined)).toEqual(['queued'])
      expect(await events(id)).toHaveLength(1)
    }
  })

  test('to different states: the log is an allowed path, and ends at the state of the row', async () => {
    for (let round = 0; round < 20; round++) {
      const id = await queued()
      const wanted = ['in_progress', 'failed', 'running', 'stopped', 'in_progress', 'failed', 'running', 'stopped'] as const
      const outcomes = await Promise.all(wanted.map((to) => move(db, id, to, null)))
      const way = ['queued', ...(await events(id)).map(({ state }) => state)] as (typeof table.states)[number][]
      way.slice(1).forEach((to, index) => expect(table.allows(way[index]!, to)).toBe(true))
      expect(way.at(-1)).toBe((await row(id)).state)
      expect(outcomes.filter((before) => before !== undefined)).toHaveLength(way.length - 1)
    }
  })
})

test('of several rows, each of many callers moves another one, in the order asked for, and callers without one get none', async () => {
  const ids = [await queued(), await queued(), await queued()]
  const which = sql<boolean>`state = 'queued' and id in (${sql.join(ids)})`
  const first = await moveFirst(db, which, sql`created_at`, 'in_progress', 'first', { attempts: 7 })
  expect([first, await row(ids[0]!)]).toMatchObject([{ id: ids[0], state: 'in_progress' }, { attempts: 7 }])
  const others = await Promise.all(Array.from({ length: 6 }, () => moveFirst(db, which, sql`created_at`, 'in_progress', 'other')))
  expect(
    others
      .filter((moved) => moved !== undefined)
      .map(({ id }) => id)
      .toSorted(),
  ).toEqual(ids.slice(1).toSorted())
  expect(await Promise.all(ids.map(events))).toEqual(['first', 'other', 'other'].map((reason) => [{ state: 'in_progress', reason }]))
  expect(await moveFirst(db, sql`id in (${sql.join(ids)})`, sql`created_at`, 'stopped', null)).toBeUndefined()
})
