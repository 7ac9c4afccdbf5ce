// Destinations of exports: who may manage them, refused values, and the effects of a change and a test.
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { around, asked, keyOf } from '../../../../../test/support/audit-log.ts'
import { PATH, PRINCIPAL, ROLE, startExporting, wanted, type Exporting } from '../../../../../test/support/audit-exports.ts'
import { startFastCloud } from '../../../../../test/support/fast-cloud.ts'
import { KEYS } from '../../../../../test/support/s3.ts'
import { until } from '../../../../base/wait.ts'
import type { ExportDestination } from './contract.ts'

const SOON_MS = 20_000

let it: Exporting
beforeAll(async () => {
  it = await startExporting()
})
afterAll(() => it[Symbol.asyncDispose]())

test('a destination is created paused, listed, changed and deleted', async () => {
  const first = await it.create({ prefix: '/a/b/', kms_key_id: 'alias/logs' })
  expect(first).toEqual({
    id: expect.stringMatching(/^[a-z][a-z0-9]{23}$/),
    type: 's3',
    format: 'jsonl.gz',
    bucket: 'logs',
    prefix: 'a/b',
    region: 'eu-west-1',
    role_arn: '',
    kms_key_id: 'alias/logs',
    external_id: expect.stringMatching(/^[a-z][a-z0-9]{23}$/),
    kernel_role_arn: PRINCIPAL,
    status: 'paused',
    consecutive_failures: 0,
    created_at: expect.any(String),
    updated_at: expect.any(String),
  })
  const second = await it.create()
  expect(second.external_id).not.toBe(first.external_id)
  const listed = await it.cloud.fetch(`${PATH}?limit=1`)
  expect([await listed.json(), listed.headers.get('x-has-more'), listed.headers.get('x-next-offset')]).toEqual([[second], 'true', '1'])
  expect(await it.get(first.id)).toEqual(first)
  // null leaves the key unchanged, an empty text removes it.
  expect(await it.change(first.id, { bucket: 'other', kms_key_id: null })).toMatchObject({ bucket: 'other', kms_key_id: 'alias/logs', prefix: 'a/b' })
  const changed = await it.change(first.id, { kms_key_id: '' })
  expect(changed).not.toHaveProperty('kms_key_id')
  expect(Date.parse(changed.updated_at)).toBeGreaterThan(Date.parse(first.updated_at))
  expect(await it.change(first.id, {})).toEqual(changed)
  for (const { id } of [first, second]) {
    expect([(await it.remove(id)).status, (await it.remove(id)).status, (await it.cloud.fetch(`${PATH}/${id}`)).status]).toEqual([204, 404, 404])
    expect((await it.cloud.send('PATCH', `${PATH}/${id}`, { status: 'active' })).status).toBe(404)
    expect((await it.cloud.fetch(`${PATH}/${id}/test`, { method: 'POST' })).status).toBe(404)
  }
})

test.each([
  [{ bucket: 'http://10.0.0.1/x' }, 'bucket'],
  [{ bucket: '169.254.169.254' }, 'bucket'],
  [{ bucket: 'arn:aws:s3:us-east-1:123456789012:accesspoint/x' }, 'bucket'],
  [{ region: 'x.example.org/' }, 'region'],
  [{ prefix: 'a/../b' }, 'prefix'],
  [{ prefix: 'a//b' }, 'prefix'],
  [{ prefix: 'a b' }, 'prefix'],
  [{ role_arn: 'logs' }, 'role_arn'],
  [{ role_arn: 'arn:aws:iam::1:role/x\r\ny: z' }, 'role_arn'],
  [{ kms_key_id: 'a\nb' }, 'kms_key_id'],
  [{ type: 'gcs' }, 'type'],
  [{ format: 'csv' }, 'format'],
  [{ endpoint: 'http://127.0.0.1:1' }, 'endpoint'],
  [{ status: 'active' }, 'status'],
])('%j is refused, and the field is named', async (wrong, field) => {
  const answer = await it.cloud.send('POST', PATH, wanted(wrong))
  expect([answer.status, ((await answer.json()) as { message: string }).message]).toEqual([400, expect.stringMatching(`^${field}: `)])
})

test('the key of a project may do none of this', async () => {
  const { id } = await it.create()
  const { key } = await keyOf(it.cloud, 'defaultproject0000000000')
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  const ask = async (method: string, below: string, body?: object) =>
    (await fetch(it.cloud.url + PATH + below, { method, headers, ...(body && { body: JSON.stringify(body) }) })).status
  expect([
    await ask('GET', ''),
    await ask('POST', '', wanted()),
    await ask('GET', `/${id}`),
    await ask('PATCH', `/${id}`, { status: 'active' }),
    await ask('POST', `/${id}/test`),
    await ask('DELETE', `/${id}`),
  ]).toEqual([403, 403, 403, 403, 403, 403])
  expect(await it.get(id)).toMatchObject({ status: 'paused' })
  await it.remove(id)
})

test('of two changes at once one is made, and the other is told', async () => {
  const { id } = await it.create()
  const holder = new pg.Client({ host: it.cloud.paths.postgresSocket, user: 'cob', database: 'postgres' })
  await holder.connect()
  await holder.query('begin')
  await holder.query('select from audit_log_destinations where id = $1 for update', [id])
  const both = ['one', 'two'].map((prefix) => it.cloud.send('PATCH', `${PATH}/${id}`, { prefix }))
  const waiting = `select count(*)::int as n from pg_stat_activity where wait_event_type = 'Lock' and query like 'update "audit_log_destinations"%'`
  await until('both to wait', SOON_MS, async () => (await it.cloud.query<{ n: number }>(waiting))[0]!.n === 2)
  await holder.query('rollback')
  await holder.end()
  const answers = await Promise.all(both)
  expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 409])
  const made = (await answers.find(({ status }) => status === 200)!.json()) as ExportDestination
  expect(await it.get(id)).toEqual(made)
  await it.remove(id)
})

test('there are 20 destinations at most', async () => {
  const ids: string[] = []
  let last: Response
  for (;;) {
    last = await it.cloud.send('POST', PATH, wanted())
    if (last.status !== 201) break
    ids.push(((await last.json()) as ExportDestination).id)
  }
  expect([ids.length, last.status]).toEqual([20, 409])
  for (const id of ids) await it.remove(id)
})

test('a test writes an object by the role, or says which step has failed and why', async () => {
  const made = await it.create({ kms_key_id: 'alias/logs' })
  const key = `logs/${made.prefix}/destination_id=${made.id}/org_id=defaultorganization00000/_test.txt`
  expect(await it.test(made.id)).toEqual({ stage: 'complete', success: true })
  expect(it.s3.objects.get(key)).toMatchObject({
    role: undefined,
    headers: { 'x-amz-server-side-encryption': 'aws:kms', 'x-amz-server-side-encryption-aws-kms-key-id': 'alias/logs' },
  })
  await it.change(made.id, { role_arn: ROLE })
  expect(await it.test(made.id)).toEqual({
    stage: 'assume_role',
    success: false,
    error: { code: 'assume_role_failed', message: expect.stringMatching(/AccessDenied: not allowed to perform sts:AssumeRole on .*logs \(403\)/) },
  })
  it.s3.roles.set(ROLE, 'the external id of another destination')
  expect(await it.test(made.id)).toMatchObject({ stage: 'assume_role', success: false })
  it.s3.roles.set(ROLE, made.external_id)
  const { assumed } = it.s3.counts
  expect([await it.test(made.id), await it.test(made.id)]).toEqual([
    { stage: 'complete', success: true },
    { stage: 'complete', success: true },
  ])
  expect([it.s3.objects.get(key)!.role, it.s3.counts.assumed - assumed]).toEqual([ROLE, 2])
  await it.change(made.id, { bucket: 'none' })
  expect(await it.test(made.id)).toEqual({
    stage: 'put_object',
    success: false,
    error: { code: 'put_object_failed', message: 'NoSuchBucket: The specified bucket does not exist (404)' },
  })
  // A test does not count as an export.
  expect(await it.get(made.id)).toMatchObject({ consecutive_failures: 0, status: 'paused' })
  await it.remove(made.id)
})

test('a service without credentials, or without a server for roles, says so; also of destinations from before', async () => {
  await using other = await startFastCloud({ COB_WARM_BROWSERS: '0', COB_AUDIT_EXPORT_SECONDS: '1' })
  const refused = await other.send('POST', PATH, wanted())
  expect([refused.status, ((await refused.json()) as { message: string }).message]).toEqual([
    400,
    expect.stringMatching(/^type: .*COB_AUDIT_EXPORT_ACCESS_KEY_ID/),
  ])
  await other.query(`insert into audit_log_destinations (id, bucket, prefix, region, role_arn, external_id, status, active)
    values ('before', 'logs', '', 'eu-west-1', '', '', 'active', '{[,)}'), ('with-role', 'logs', '', 'eu-west-1', '${ROLE}', '', 'paused', '{}')`)
  const ask = async (id: string) => (await other.fetch(`${PATH}/${id}/test`, { method: 'POST' })).json()
  expect([await ask('before'), await ask('with-role')]).toMatchObject([
    { stage: 'put_object', error: { message: expect.stringContaining('COB_AUDIT_EXPORT_ACCESS_KEY_ID') } },
    { stage: 'assume_role', error: { message: expect.stringContaining('COB_AUDIT_EXPORT_ACCESS_KEY_ID') } },
  ])
  expect((await other.send('PATCH', `${PATH}/with-role`, { status: 'active' })).status).toBe(400)
  await expect
    .poll(async () => (await other.fetch(`${PATH}/before`)).json())
    .toMatchObject({
      consecutive_failures: expect.toSatisfy((count: number) => count > 0),
      last_error: expect.stringContaining('COB_AUDIT_EXPORT_ACCESS_KEY_ID'),
    })
})

test('with an S3 server and no STS server, roles are refused; a server that is away is not named to callers', async () => {
  const keys = { COB_AUDIT_EXPORT_ACCESS_KEY_ID: 'a', COB_AUDIT_EXPORT_SECRET_ACCESS_KEY: 'b' }
  await using other = await startFastCloud({ COB_WARM_BROWSERS: '0', ...keys, COB_AUDIT_EXPORT_S3_ENDPOINT: 'http://127.0.0.1:1' })
  const refused = await other.send('POST', PATH, wanted({ role_arn: ROLE }))
  expect([refused.status, ((await refused.json()) as { message: string }).message]).toEqual([
    400,
    expect.stringMatching(/^role_arn: .*COB_AUDIT_EXPORT_STS_ENDPOINT/),
  ])
  const { id } = (await (await other.send('POST', PATH, wanted())).json()) as ExportDestination
  expect(await (await other.fetch(`${PATH}/${id}/test`, { method: 'POST' })).json()).toEqual({
    stage: 'put_object',
    success: false,
    error: { code: 'put_object_failed', message: 'there was no usable answer (ECONNREFUSED)' },
  })
})

test('no secret of the settings is in an answer or in the log of the service', async () => {
  const answers = await (await it.cloud.fetch(PATH)).text()
  const chunk = await (await it.cloud.fetch(asked({ ...around(), format: 'jsonl' }, '/export/chunk'))).text()
  for (const text of [answers, chunk, JSON.stringify(it.cloud.errors)]) for (const secret of Object.values(KEYS)) expect(text).not.toContain(secret)
})
