// Connections that the server, a firewall or a failover has ended while idle: the next caller gets another one.
import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { join } from 'node:path'
import pg from 'pg'
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ownPostgres } from '../../test/support/postgres.ts'
import { silentLog } from '../base/log.ts'
import { Unavailable } from '../base/unavailable.ts'
import { sleep } from '../base/wait.ts'
import { connectDb, type Db, type DbAddress } from './db.ts'

const opened = new AsyncDisposableStack()
let address: { host: string; user: string; database: string }
let admin: pg.Client
beforeAll(async () => {
  const { host } = await ownPostgres('pool', opened)
  address = { host, user: 'cob', database: 'postgres' }
  admin = new pg.Client(address)
  await admin.connect()
  opened.defer(() => admin.end())
  await admin.query('create table calls (id integer)')
})
afterAll(() => opened.disposeAsync())

const database = (to: DbAddress = address): Db & AsyncDisposable => {
  const db = connectDb(to, silentLog)
  return Object.assign(db, { [Symbol.asyncDispose]: () => db.destroy() })
}
const pidOf = async (db: Db) => (await sql<{ pid: number }>`select pg_backend_pid() as pid`.execute(db)).rows[0]!.pid
/** As many connections as callers request at once. */
const spread = (db: Db, callers: number) => Promise.all(Array.from({ length: callers }, () => sql`select pg_sleep(0.02)`.execute(db)))
const calls = async () => Number((await admin.query('select count(*) from calls')).rows[0].count)
/** Resolves when Postgres has notified all clients that their connections have ended. */
const allEnded = () => expect.poll(async () => (await admin.query(`select from pg_stat_activity where application_name = 'cob'`)).rowCount).toBe(0)
const endAll = () => admin.query(`select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'cob'`)

test('a connection that the server has ended is not given to a caller', async () => {
  await using db = database()
  for (let time = 0; time < 20; time++) {
    await spread(db, 4)
    await endAll()
    await allEnded()
    const before = await calls()
    await Promise.all([
      sql`insert into calls values (${time})`.execute(db),
      db.transaction().execute((tx) => sql`insert into calls values (${time})`.execute(tx)),
      sql`insert into calls values (3)`.execute(db),
    ])
    expect(await calls()).toBe(before + 3)
  }
})

test('a connection that ends during a transaction fails that transaction, which is not repeated, and no other caller', async () => {
  await using db = database()
  const before = await calls()
  let runs = 0
  const transaction = db.transaction().execute(async (tx) => {
    runs++
    await sql`insert into calls values (1)`.execute(tx)
    await admin.query('select pg_terminate_backend($1)', [await pidOf(tx)])
    await sql`insert into calls values (2)`.execute(tx)
  })
  await expect(transaction).rejects.toThrow(Unavailable)
  await sql`insert into calls values (3)`.execute(db)
  expect([runs, await calls()]).toEqual([1, before + 1])
})

test('a statement whose connection ends while it runs is not run again: its caller is told', async () => {
  await using db = database()
  await spread(db, 2)
  const before = await calls()
  const statement = sql`insert into calls select 1 from pg_sleep(${2})`.execute(db)
  await expect
    .poll(
      async () =>
        (await admin.query(`select from pg_stat_activity where query like '%pg_sleep($1)%' and state = 'active' and pid <> pg_backend_pid()`)).rowCount,
    )
    .toBe(1)
  await Promise.all([expect(statement).rejects.toThrow(Unavailable), endAll()])
  expect(await calls()).toBe(before)
})

test('connections that a firewall has cut without a word cost one caller a short wait, however many there are', async () => {
  const links: Socket[][] = []
  const firewall = createServer((client) => {
    const server = connect(join(address.host, '.s.PGSQL.5432'))
    links.push([client, server])
    for (const end of [client, server]) end.on('error', () => {}).on('close', () => (client.destroy(), server.destroy()))
    client.pipe(server).pipe(client)
  })
  await once(firewall.listen(0, '127.0.0.1'), 'listening')
  try {
    await using db = database({ connectionString: `postgres://cob@127.0.0.1:${(firewall.address() as AddressInfo).port}/postgres` })
    await spread(db, 6)
    for (const [client, server] of links.splice(0)) client!.unpipe(server).resume()
    // A firewall cuts connections that were idle for minutes; a connection of this second is not checked.
    await sleep(1_100)
    const before = await calls()
    const began = performance.now()
    for (let caller = 0; caller < 6; caller++) await sql`insert into calls values (${caller})`.execute(db)
    // One check without an answer, of 2 s each, not six.
    expect(performance.now() - began).toBeLessThan(9_000)
    expect(await calls()).toBe(before + 6)
  } finally {
    firewall.close()
  }
})
