// Statements that connections keep prepared, while another replica upgrades the tables.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { silentLog } from '../base/log.ts'
import { dataPaths } from '../base/paths.ts'
import { Unavailable } from '../base/unavailable.ts'
import { connectDb, type Db } from './db.ts'
import { startPostgres, type EmbeddedPostgres } from './embedded.ts'
import { copyTemplate } from '../../test/support/template.ts'

const root = mkdtempSync(join(tmpdir(), 'cob-prepared-'))
let postgres: EmbeddedPostgres
let db: Db
beforeAll(async () => {
  copyTemplate(root)
  postgres = await startPostgres(dataPaths(root), silentLog, AbortSignal.timeout(60_000))
  db = connectDb(postgres.address, silentLog)
  await sql`create table things (id integer)`.execute(db)
  await sql`insert into things values (1)`.execute(db)
}, 60_000)
afterAll(async () => {
  await db.destroy()
  await postgres.stop()
  rmSync(root, { recursive: true, force: true })
})

const things = async (by: Db) => (await sql<object>`select * from things where id = ${1}`.execute(by)).rows

test('are answered with the columns that a table has got meanwhile', async () => {
  for (let time = 0; time < 5; time++) expect(await things(db)).toEqual([{ id: 1 }])
  expect((await sql<{ name: string }>`select name from pg_prepared_statements`.execute(db)).rows.length).toBeGreaterThan(0)
  await sql`alter table things add column size integer`.execute(db)
  for (let time = 0; time < 5; time++) expect(await things(db)).toEqual([{ id: 1, size: null }])
})

test('in a transaction, callers are told to try again, and then are answered', async () => {
  const work = () => db.transaction().execute((tx) => things(tx))
  for (let time = 0; time < 5; time++) await work()
  await sql`alter table things add column weight integer`.execute(db)
  await expect(work()).rejects.toThrow(Unavailable)
  expect(await work()).toEqual([{ id: 1, size: null, weight: null }])
})
