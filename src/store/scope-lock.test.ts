// The lock of a scope when its database session breaks: taken again, or lost to another process.
import pg from 'pg'
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ownPostgres } from '../../test/support/postgres.ts'
import { newId } from '../base/ids.ts'
import { silentLog } from '../base/log.ts'
import { Unavailable } from '../base/unavailable.ts'
import { until } from '../base/wait.ts'
import { connectDb, type Db } from './db.ts'
import { holdScope, ScopeTaken, type ScopeLock } from './scope-lock.ts'

const AGAIN_MS = 5_000

const opened = new AsyncDisposableStack()
let address: { host: string; user: string; database: string }
let admin: pg.Client
beforeAll(async () => {
  const { host } = await ownPostgres('scope_lock', opened)
  address = { host, user: 'cob', database: 'postgres' }
  admin = new pg.Client(address)
  await admin.connect()
  opened.defer(() => admin.end())
})
afterAll(() => opened.disposeAsync())

async function connected(): Promise<Db> {
  const db = connectDb(address, silentLog)
  opened.defer(() => db.destroy())
  return db
}
const KEY = `hashtextextended('cob:' || $1, 0)`
/** Ends the sessions that hold the scope's lock, like a server that stops. */
const breakSessions = (scope: string) =>
  admin.query(
    `select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory' and granted and ((classid::bigint << 32) | objid::bigint) = ${KEY} and pid <> pg_backend_pid()`,
    [scope],
  )

/** Released at the end even when a test fails: the connections of a held lock cannot be closed. */
async function held(db: Db, scope: string): Promise<ScopeLock> {
  const lock = await holdScope(db, scope)
  opened.defer(() => lock.release())
  return lock
}

/** Tries it like a service, every second. */
const again = (lock: ScopeLock) =>
  until('the lock', AGAIN_MS, () =>
    lock.ensure().then(
      () => true,
      (error: unknown) => (error instanceof ScopeTaken ? Promise.reject(error) : false),
    ),
  )

test('a lock whose session has broken is taken again', async () => {
  const scope = newId()
  const lock = await held(await connected(), scope)
  for (let times = 0; times < 3; times++) {
    await breakSessions(scope)
    await again(lock)
    await expect(holdScope(await connected(), scope)).rejects.toThrow(ScopeTaken)
  }
  await lock.release()
})

test('a lock that another process has taken meanwhile is lost, and the error says so', async () => {
  const scope = newId()
  const lock = await held(await connected(), scope)
  const waiting = admin.query(`select pg_advisory_lock(${KEY})`, [scope])
  const breaker = new pg.Client(address)
  await breaker.connect()
  await until('another process to wait', AGAIN_MS, async () => (await breaker.query('select from pg_locks where not granted')).rowCount === 1)
  await breaker.query(
    `select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory' and granted and ((classid::bigint << 32) | objid::bigint) = ${KEY}`,
    [scope],
  )
  await waiting
  await Promise.all([1, 2].map(() => expect(lock.ensure()).rejects.toThrow(ScopeTaken)))
  await admin.query('select pg_advisory_unlock_all()')
  await lock.ensure()
  await lock.release()
  await breaker.end()
})

test('our own earlier session that the server still has is ended, and is not taken for another process', async () => {
  const scope = newId()
  const db = await connected()
  let isBroken = false
  // The end of the connection does not reach the server either.
  const broken = db.withPlugin({
    transformQuery({ node, queryId }) {
      const { sql: text } = db.getExecutor().compileQuery(node, queryId)
      if (isBroken && /^select 1$|unlock_all/.test(text)) throw new Unavailable('no answer', 1)
      return node
    },
    transformResult: async ({ result }) => result,
  })
  const lock = await held(broken, scope)
  isBroken = true
  await expect(lock.ensure()).rejects.toThrow('our own earlier session still had the lock')
  isBroken = false
  await again(lock)
  await expect(holdScope(db, scope)).rejects.toThrow(ScopeTaken)
  expect((await sql<{ held: number }>`select count(*)::int as held from pg_locks where locktype = 'advisory' and granted`.execute(db)).rows[0]!.held).toBe(1)
  await lock.release()
})

test('who is refused is told which process has the lock, and on which port it listens', async () => {
  const scope = newId()
  const db = await connected()
  const lock = await holdScope(db, scope, { port: 2700 })
  const refused = () => holdScope(db, scope)
  await expect(refused()).rejects.toThrow(`another Cob runs with this data directory already (process ${process.pid} on port 2700 of `)
  // After taking the lock again, the port is announced again.
  await breakSessions(scope)
  await again(lock)
  await expect(refused()).rejects.toThrow(`process ${process.pid} on port 2700`)
  await lock.release()
  await (await holdScope(db, scope)).release()
  expect(
    (
      await sql<{
        name: string
      }>`select application_name as name from pg_stat_activity where pid <> pg_backend_pid() and application_name like 'cob:%'`.execute(db)
    ).rows,
  ).toEqual([])
})
