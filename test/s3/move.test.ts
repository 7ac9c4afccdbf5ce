// Moves a service to a Postgres and a real S3 server by backup and restore. It continues there with all its data, also when the restore was killed in between.
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { CreateBucketCommand, ListObjectsV2Command, S3Client } from '@aws-sdk/client-s3'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { newId } from '../../src/base/ids.ts'
import { dataPaths, type DataPaths } from '../../src/base/paths.ts'
import { until } from '../../src/base/wait.ts'
import { expectAll, fill, run, serviceOn, start, type Filled } from '../support/filled-service.ts'
import { ownPostgres } from '../support/postgres.ts'
import { scratchDir } from '../support/scratch.ts'
import { copyTemplate } from '../support/template.ts'

const SOON_MS = 60_000
const endpoint = process.env.COB_TEST_S3!
const keys = { accessKeyId: 'test:tester', secretAccessKey: 'testing' }
const Bucket = `cob-${newId()}`
const client = new S3Client({ endpoint, region: 'us-east-1', forcePathStyle: true, credentials: keys, requestChecksumCalculation: 'WHEN_REQUIRED' })

const scope = new AsyncDisposableStack()
let paths: DataPaths
let filled: Filled
let env: Record<string, string>
beforeAll(async () => {
  const dir = scratchDir('cob-move-s3-')
  scope.defer(() => rmSync(dir, { recursive: true, force: true }))
  copyTemplate(dir)
  paths = dataPaths(dir)
  {
    await using service = await serviceOn(dir)
    filled = await fill(service)
  }
  await client.send(new CreateBucketCommand({ Bucket }))
  const { host } = await ownPostgres('target', scope)
  const admin = new pg.Client({ host, user: 'cob', database: 'postgres' })
  await admin.connect()
  try {
    await admin.query(`create database moved template template0 encoding 'UTF8'`)
  } finally {
    await admin.end()
  }
  env = {
    DATABASE_URL: `postgres://cob@/moved?host=${host}`,
    COB_S3_BUCKET: Bucket,
    COB_S3_ENDPOINT: endpoint,
    COB_S3_ACCESS_KEY_ID: keys.accessKeyId,
    COB_S3_SECRET_ACCESS_KEY: keys.secretAccessKey,
    COB_S3_PREFIX: 'a/b',
  }
})
afterAll(async () => {
  await scope.disposeAsync()
  client.destroy()
})

const objects = async () => ((await client.send(new ListObjectsV2Command({ Bucket }))).Contents ?? []).map(({ Key }) => Key!)

test('a restore that was killed between its objects and run again moves everything, and a service goes on with it', async () => {
  const file = join(paths.root, 'cob.tar')
  expect(await run([file, '--with-keys'], { COB_DATA_DIR: paths.root }, 'backup')).toMatchObject({ code: 0 })
  const elsewhere = scratchDir('cob-elsewhere-')
  scope.defer(() => rmSync(elsewhere, { recursive: true, force: true }))
  const to = { ...env, COB_DATA_DIR: join(elsewhere, 'data') }
  const { child, ended } = start([file, '--same-scope'], to, 'restore')
  await until('the first objects', SOON_MS, async () => (await objects()).length > 1 || child.exitCode !== null, { everyMs: 5 })
  child.kill('SIGKILL')
  await ended
  expect(await run([file, '--same-scope'], to, 'restore')).toMatchObject({ code: 0 })
  expect((await objects()).every((key) => key.startsWith('a/b/'))).toBe(true)
  const { COB_DATA_DIR: dir, ...settings } = to
  await using service = await serviceOn(dir, settings)
  await expectAll(service, filled)
})
