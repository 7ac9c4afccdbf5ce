// Exports the audit log to a real S3 server. script/test-s3 starts it and runs this.
import { CreateBucketCommand, GetObjectCommand, ListObjectsV2Command, S3Client } from '@aws-sdk/client-s3'
import { gunzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { newId } from '../../src/base/ids.ts'
import { until } from '../../src/base/wait.ts'
import { PATH, wanted } from '../support/audit-exports.ts'
import { startFastCloud } from '../support/fast-cloud.ts'

const SOON_MS = 60_000
const endpoint = process.env.COB_TEST_S3!
const keys = { accessKeyId: 'test:tester', secretAccessKey: 'testing' }
const bucket = `cob-${newId()}`

test('entries are in objects of a bucket, and a bucket that is missing is named as the reason', async () => {
  const client = new S3Client({ endpoint, region: 'us-east-1', forcePathStyle: true, credentials: keys, requestChecksumCalculation: 'WHEN_REQUIRED' })
  using scope = new DisposableStack()
  scope.defer(() => client.destroy())
  await client.send(new CreateBucketCommand({ Bucket: bucket }))
  await using cloud = await startFastCloud({
    COB_WARM_BROWSERS: '0',
    COB_AUDIT_EXPORT_ACCESS_KEY_ID: keys.accessKeyId,
    COB_AUDIT_EXPORT_SECRET_ACCESS_KEY: keys.secretAccessKey,
    COB_AUDIT_EXPORT_S3_ENDPOINT: endpoint,
    COB_AUDIT_EXPORT_SECONDS: '1',
  })
  const body = wanted({ bucket: `none-${newId()}`, prefix: "a b's".replace(' ', '='), region: 'us-east-1' })
  const { id } = (await (await cloud.send('POST', PATH, body)).json()) as { id: string }
  const tried = async () => (await cloud.fetch(`${PATH}/${id}/test`, { method: 'POST' })).json()
  expect(await tried()).toMatchObject({ stage: 'put_object', error: { message: expect.stringMatching(/^NoSuchBucket: .*\(404\)$/) } })
  expect((await cloud.send('PATCH', `${PATH}/${id}`, { bucket, status: 'active' })).status).toBe(200)
  expect(await tried()).toEqual({ stage: 'complete', success: true })
  const path = `/org/projects/${newId()}`
  await cloud.fetch(path)
  const lines = async () => {
    const { Contents = [] } = await client.send(new ListObjectsV2Command({ Bucket: bucket, Prefix: `a=b's/destination_id=${id}/` }))
    const texts = Contents.filter(({ Key }) => Key!.endsWith('.jsonl.gz')).map(async ({ Key }) => {
      const { Body } = await client.send(new GetObjectCommand({ Bucket: bucket, Key: Key! }))
      return gunzipSync(await Body!.transformToByteArray()).toString()
    })
    return (await Promise.all(texts)).join('')
  }
  await until('the entry', SOON_MS, async () => (await lines()).includes(path), { everyMs: 200 })
  await cloud.fetch(`${PATH}/${id}`, { method: 'DELETE' })
})
