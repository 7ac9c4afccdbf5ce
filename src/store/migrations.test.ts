// Migrations of a database that an earlier version has filled: nothing is lost, and everything has its new shape.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Kysely, PostgresDialect, sql } from 'kysely'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { copyTemplate } from '../../test/support/template.ts'
import { silentLog } from '../base/log.ts'
import { dataPaths } from '../base/paths.ts'
import { migratorOf, openDb, type Db } from './db.ts'
import { startPostgres } from './embedded.ts'
import type { Tables } from './tables.ts'

const START_MS = 60_000

const scope = new AsyncDisposableStack()
let host: string
beforeAll(async () => {
  const paths = dataPaths(mkdtempSync(join(tmpdir(), 'cob-migrations-')))
  scope.defer(() => rmSync(paths.root, { recursive: true, force: true }))
  copyTemplate(paths.root)
  const postgres = await startPostgres(paths, silentLog, AbortSignal.timeout(START_MS))
  scope.defer(() => postgres.stop())
  host = paths.postgresSocket
})
afterAll(() => scope.disposeAsync())

/** A database as the version with `last` as its newest migration has left it after `fill`, opened by this version. */
async function opened(name: string, last: string, fill: (old: Db) => Promise<void>): Promise<Db> {
  const admin = new pg.Client({ host, user: 'cob', database: 'postgres' })
  await admin.connect()
  await admin.query(`create database ${name}`).finally(() => admin.end())
  const old: Db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool: new pg.Pool({ host, user: 'cob', database: name }) }) })
  try {
    const { error } = await migratorOf(old).migrateTo(last)
    if (error) throw error
    await fill(old)
  } finally {
    await old.destroy()
  }
  const db = await openDb({ host, user: 'cob', database: name }, silentLog)
  scope.defer(() => db.destroy())
  return db
}

test('keys of settings get the host that set them last, and other keys get none', async () => {
  const db = await opened('keys', '0005-ended-steps', async (old) => {
    await sql`insert into browsers (id, state, host, made_at) values ('b1', 'deleted', 'before', now() - interval '1 day'), ('b2', 'running', 'here', now())`.execute(
      old,
    )
    await sql`insert into deployments (id, state, region) values ('d1', 'running', 'aws.us-east-1a')`.execute(old)
    await sql`
      insert into api_keys (id, name, hash, masked, deployment_id) values
        ('k1', 'first key', decode('01', 'hex'), 'm', null), ('k2', 'COB_API_KEY', decode('02', 'hex'), 'm', null), ('k3', 'deployment d1', decode('03', 'hex'), 'm', 'd1')`.execute(
      old,
    )
  })
  expect(await db.selectFrom('api_keys').select(['id', 'host', 'deleted_at']).orderBy('id').execute()).toEqual([
    { id: 'k1', host: 'here', deleted_at: null },
    { id: 'k2', host: 'here', deleted_at: null },
    { id: 'k3', host: '', deleted_at: null },
  ])
})
