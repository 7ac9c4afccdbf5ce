// Messages of the doctor and of a starting service about missing objects.
import { existsSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { fastCloud } from '../../../test/support/fast-cloud.ts'
import { readConfig } from '../../base/config.ts'
import { newId } from '../../base/ids.ts'
import { silentLog, type Log } from '../../base/log.ts'
import { until } from '../../base/wait.ts'
import { fileObjects } from '../../store/objects-files.ts'
import { objectsProblem } from './doctor.ts'
import { deploy } from '../apps/invocations/deployed.suite.ts'
import { objectOwners } from '../modules.ts'
import { careForObjects } from './system/objects.ts'

const NOTICE_MS = 20_000

const cloud = fastCloud()
const check = (env: Record<string, string> = {}) => objectsProblem(readConfig({ COB_DATA_DIR: cloud.paths.root, ...env }))

test('an object that a row names and that is gone is named by the doctor, and logged at the start of a service', async () => {
  const { session_id: id } = await cloud.create()
  const { replay_id } = (await (await cloud.send('POST', `/browsers/${id}/replays`, {})).json()) as { replay_id: string }
  await until('a picture', NOTICE_MS, () => existsSync(join(cloud.paths.spool, replay_id)), { everyMs: 20 })
  await cloud.fetch(`/browsers/${id}/replays/${replay_id}/stop`, { method: 'POST' })
  const find = async () => (await cloud.query<{ object: string }>(`select object from replays where id = $1 and state = 'ready'`, [replay_id]))[0]
  const { object } = await until('the film', NOTICE_MS, find, { everyMs: 20 })
  expect(await check()).toBe(undefined)
  rmSync(join(cloud.paths.objects, object))
  expect(await check()).toMatch(new RegExp(`^1 that the database names are gone: ${object}; `))

  const received: { message: string; fields: object }[] = []
  const log: Log = { ...silentLog, error: (fields, message) => void received.push({ message, fields }) }
  await using scope = new AsyncDisposableStack()
  const { db } = cloud
  const host = (await cloud.query<{ scope: string }>('select scope from browsers where id = $1', [id]))[0]!.scope
  scope.use(careForObjects({ db, objects: fileObjects(cloud.paths.objects), owners: objectOwners(db, host), log }))
  await until('the report', NOTICE_MS, () => received.length > 0)
  expect(received).toEqual([{ message: 'objects that rows name are gone', fields: { count: 1, keys: [object] } }])
  await cloud.query('delete from replays where id = $1', [replay_id])
})

test('the code of an app that is gone is named by the doctor', async () => {
  const id = await deploy(cloud)
  const [row] = await cloud.query<{ code_key: string }>('select code_key from deployments where id = $1', [id])
  expect(await check()).toBe(undefined)
  rmSync(join(cloud.paths.objects, row!.code_key))
  expect(await check()).toMatch(new RegExp(`^1 that the database names are gone: ${row!.code_key}; .*those apps do not run$`))
  await cloud.query('update deployments set code_key = null where id = $1', [id])
})

test('a bucket that does not answer is reported with its reason, without its secret', async () => {
  const problem = await check({
    COB_S3_BUCKET: 'films',
    COB_S3_ENDPOINT: 'http://127.0.0.1:1',
    COB_S3_ACCESS_KEY_ID: 'one',
    COB_S3_SECRET_ACCESS_KEY: 'two-secret',
  })
  expect(problem).toMatch(/^they cannot be checked: a list in S3 failed: .*ECONNREFUSED/)
  expect(problem).not.toContain('two-secret')
})

test('without a data directory there is nothing to check, and none is made', async () => {
  const dir = join(tmpdir(), newId())
  expect([await check({ COB_DATA_DIR: dir }), existsSync(dir)]).toEqual([undefined, false])
})
