// The forms of the tables with which a version starts, and that migrations do what their names say.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import pg from 'pg'
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { beforeRelease, ownPostgres } from '../../test/support/postgres.ts'
import { silentLog } from '../base/log.ts'
import { connectDb, migratorOf, openDb, type Db } from './db.ts'
import { breaks, migrationNames, replicasThere, schemaOf, whyNot } from './schema.ts'

const scope = new AsyncDisposableStack()
let host: string
beforeAll(async () => {
  ;({ host } = await ownPostgres('schema', scope))
})
afterAll(() => scope.disposeAsync())

const addressOf = async (database: string) => {
  const admin = new pg.Client({ host, user: 'cob', database: 'postgres' })
  await admin.connect()
  try {
    await admin.query(`create database ${database}`)
  } finally {
    await admin.end()
  }
  return { host, user: 'cob', database }
}
const later = (db: Db, name: string) => sql`insert into kysely_migration values (${name}, '2030-01-01T00:00:00.000Z')`.execute(db)

test('a version starts with tables that a newer one has added to, and with no others', async () => {
  const address = await addressOf('newer')
  await using opened = new AsyncDisposableStack()
  const db = opened.adopt(await openDb(address, silentLog), (one) => one.destroy())
  await sql`alter table api_keys add column what_is_new text`.execute(db)
  await later(db, '9998-adds')
  const again = await openDb(address, silentLog)
  expect((await schemaOf(again)).unknown).toEqual(['9998-adds'])
  await again.destroy()
  await later(db, '9999-drops.breaks')
  await expect(openDb(address, silentLog)).rejects.toThrow(
    /upgraded by a newer version of Cob, and this one cannot work with its tables \(9999-drops\.breaks\)/,
  )
})

test('replicas that work with the tables are counted, and a version that breaks these waits for their end', async () => {
  await using opened = new AsyncDisposableStack()
  const db = opened.adopt(await openDb(await addressOf('replicas'), silentLog), (one) => one.destroy())
  expect(await replicasThere(db)).toBe(0)
  await sql`
    insert into leases (scope, duty, replica, until) values
      ('s', 'replica a', 'a', now() + interval '1 minute'), ('t', 'replica b', 'b', now() + interval '1 minute'), ('s', 'replica c', 'c', now() - interval '1 second')`.execute(
    db,
  )
  expect(await replicasThere(db)).toBe(2)
  const pending = { done: ['0001-a'], pending: ['0002-b', '0003-c.breaks'], unknown: [] }
  expect(whyNot(pending, 2)).toMatch(/2 other replicas work with the tables.*0003-c\.breaks.*Recreate/)
  expect(whyNot(pending, 0)).toBeUndefined()
  expect(whyNot({ ...pending, pending: ['0002-b'] }, 2)).toBeUndefined()
  expect(whyNot({ done: [], pending: ['0002-b'], unknown: ['0003-x'] }, 0)).toMatch(/does not know \(0003-x\), and lacks others \(0002-b\)/)
})

/** The requirements of older programs: their tables, columns with their types, and rows that can be written without new columns. */
async function promises(db: Db): Promise<Map<string, { type: string; required: boolean }>> {
  const { rows } = await sql<{ column: string; type: string; required: boolean }>`
    select table_name || '.' || column_name as column, udt_name as type, is_nullable = 'NO' and column_default is null and is_identity = 'NO' and is_generated = 'NEVER' as required
    from information_schema.columns where table_schema = 'public' and table_name not like 'kysely%'`.execute(db)
  return new Map(rows.map(({ column, ...rest }) => [column, rest]))
}
async function checks(db: Db): Promise<Map<string, string>> {
  const { rows } = await sql<{ name: string; on: string; is: string }>`
    select conrelid::regclass::text || '.' || conname as name, conrelid::regclass::text as on, pg_get_constraintdef(oid) as is from pg_constraint where connamespace = 'public'::regnamespace and contype <> 'n'`.execute(
    db,
  )
  return new Map(rows.map(({ name, on, is }) => [name, `${on}: ${is}`]))
}

/** Changes of a migration other than additions. */
async function damage(db: Db, work: () => Promise<void>): Promise<string[]> {
  const [before, checksBefore] = [await promises(db), await checks(db)]
  await work()
  const [after, checksAfter] = [await promises(db), await checks(db)]
  const tables = new Set([...before.keys()].map((column) => column.split('.')[0]))
  const isOld = (table: string) => tables.has(table)
  return [
    ...[...before].flatMap(([column, { type, required }]) => {
      const now = after.get(column)
      if (!now) return `${column} is gone`
      return now.type !== type ? `${column} has another type` : now.required && !required ? `${column} is required now` : []
    }),
    ...[...after].flatMap(([column, { required }]) => (required && !before.has(column) && isOld(column.split('.')[0]!) ? `${column} is new and required` : [])),
    // A new or stricter rule for rows of a table that older programs write. Foreign keys of new columns do not affect rows that leave these empty.
    ...[...checksAfter].flatMap(([name, is]) =>
      checksBefore.get(name) !== is && isOld(name.split('.')[0]!) && !/: FOREIGN KEY/.test(is) ? `${name} is another rule` : [],
    ),
  ]
}

test('a migration that does more than add to the tables says so by its name', async () => {
  await using opened = new AsyncDisposableStack()
  const address = await addressOf('one_by_one')
  const db = opened.adopt(connectDb(address, silentLog), (one) => one.destroy())
  for (const name of migrationNames()) {
    const what = await damage(db, async () => {
      const { error } = await migratorOf(db).migrateTo(name)
      if (error) throw error
    })
    if (!breaks(name)) expect({ name, what }).toEqual({ name, what: [] })
  }
  const rule = () => sql`alter table api_keys add constraint narrow check (name <> 'x')`.execute(db)
  expect(await damage(db, async () => void (await rule()))).toEqual(['api_keys.narrow is another rule'])
  expect(await damage(db, async () => void (await sql`alter table api_keys add column a text, add column b text not null default ''`.execute(db)))).toEqual([])
  expect(await damage(db, async () => void (await sql`alter table api_keys add column c text not null`.execute(db)))).toEqual([
    'api_keys.c is new and required',
  ])
  expect(await damage(db, async () => void (await sql`alter table api_keys rename column masked to hidden`.execute(db)))).toEqual([
    'api_keys.masked is gone',
    'api_keys.hidden is new and required',
  ])
})

test('the types of tables have the columns of the schema, and say which may be null', async () => {
  await using opened = new AsyncDisposableStack()
  const db = opened.adopt(await openDb(await addressOf('types'), silentLog), (one) => one.destroy())
  const { rows } = await sql<{ column: string }>`
    select table_name || '.' || column_name || case is_nullable when 'YES' then ' | null' else '' end as column
    from information_schema.columns where table_schema = 'public' and table_name not like 'kysely%' order by 1`.execute(db)
  const typed = ['tables', 'tables-logins', 'tables-people'].flatMap((file) => {
    let table = ''
    return [...readFileSync(join(import.meta.dirname, `${file}.ts`), 'utf8').matchAll(/^ {2}(\w+): \{$|^ {4}(\w+): (.*)$/gm)].flatMap(
      ([, name, column, type]) => {
        table = name ?? table
        return column === undefined ? [] : `${table}.${column}${/\bnull\b/.test(type!) ? ' | null' : ''}`
      },
    )
  })
  expect(typed.sort()).toEqual(rows.map(({ column }) => column).sort())
})

test('a database with all migrations of before the first release goes on, as the same one; one with fewer is refused', async () => {
  const address = await addressOf('before')
  await using opened = new AsyncDisposableStack()
  const db = opened.adopt(connectDb(address, silentLog), (one) => one.destroy())
  await beforeRelease(db, '0037-oauth')
  const refused = openDb(address, silentLog)
  await expect(refused).rejects.toThrow(/its last migration is 0037-oauth\), which only the last version before it, with 0038-build-sandboxes/)
  await beforeRelease(db, '0038-build-sandboxes')
  expect(await schemaOf(db)).toEqual({ done: ['0001-schema'], pending: migrationNames().slice(1), unknown: [] })
  // That version keeps code as a folder until it has packed it. Runs of this version would not find it.
  await sql`insert into deployments (id, scope, state, region, env_keys) values ('a', 'here', 'running', 'r', '[]'), ('b', 'here', 'stopped', 'r', '[]')`.execute(
    db,
  )
  await expect(openDb(address, silentLog)).rejects.toThrow('has not packed the code of 1 deployments yet. Start that version')
  await sql`update deployments set code_key = 'code/a.x' where id = 'a'`.execute(db)
  for (const one of await Promise.all([openDb(address, silentLog), openDb(address, silentLog)])) await one.destroy()
  const { rows } = await sql`select * from kysely_migration where name < '0002'`.execute(db)
  expect(rows).toEqual([{ name: '0001-schema', timestamp: '2026-11-01T00:00:00.000Z' }])
})
