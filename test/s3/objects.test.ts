// The object store over a real S3 server, and a service that uses it. script/test-s3 starts the server and runs these tests.
import { once } from 'node:events'
import { randomBytes } from 'node:crypto'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { join } from 'node:path'
import { CreateBucketCommand, CreateMultipartUploadCommand, ListMultipartUploadsCommand, ListObjectsV2Command, S3Client } from '@aws-sdk/client-s3'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { S3Settings } from '../../src/base/s3-settings.ts'
import { newId } from '../../src/base/ids.ts'
import { sleep, until } from '../../src/base/wait.ts'
import { s3Objects } from '../../src/store/objects-s3.ts'
import { objectsSuite } from '../../src/store/objects.suite.ts'
import { extensionForm, MANIFEST } from '../support/extensions.ts'
import { startFastCloud } from '../support/fast-cloud.ts'
import { makeZip } from '../support/zips.ts'

const SOON_MS = 60_000
const { signal } = new AbortController()
const endpoint = process.env.COB_TEST_S3!
const keys = { accessKeyId: 'test:tester', secretAccessKey: 'testing' }
const settings: S3Settings = { bucket: `cob-${newId()}`, endpoint, region: 'us-east-1', prefix: 'a/b', ...keys }

const client = new S3Client({ endpoint, region: 'us-east-1', forcePathStyle: true, credentials: keys, requestChecksumCalculation: 'WHEN_REQUIRED' })
beforeAll(async () => void (await client.send(new CreateBucketCommand({ Bucket: settings.bucket }))))
afterAll(() => client.destroy())

objectsSuite('S3', 1_000, async () => s3Objects(settings))

test('parts of an upload that a killed process left are removed when they are old, and nothing is left of an upload that was aborted', async () => {
  using objects = s3Objects(settings)
  const uploads = async () => ((await client.send(new ListMultipartUploadsCommand({ Bucket: settings.bucket }))).Uploads ?? []).map(({ Key }) => Key)
  await until('aborted uploads to go', SOON_MS, async () => (await uploads()).length === 0, { everyMs: 200 })
  for (const name of ['one', 'two']) await client.send(new CreateMultipartUploadCommand({ Bucket: settings.bucket, Key: `a/b/left/${name}` }))
  await client.send(new CreateMultipartUploadCommand({ Bucket: settings.bucket, Key: 'others/x' }))
  await objects.dropUnfinished(new Date(Date.now() - 3600_000), signal)
  expect(await uploads()).toEqual(['a/b/left/one', 'a/b/left/two', 'others/x'])
  await objects.dropUnfinished(new Date(Date.now() + 3600_000), signal)
  expect(await uploads()).toEqual(['others/x'])
})

test('a bucket that is missing, and keys that are wrong, are errors and not missing objects, and tell no secret', async () => {
  for (const wrong of [{ bucket: `none-${newId()}` }, { secretAccessKey: 'not-the-right-one' }, { endpoint: 'http://127.0.0.1:1' }]) {
    using objects = s3Objects({ ...settings, ...wrong })
    const error = await objects.get('a').then(
      () => undefined,
      (problem: unknown) => problem as Error,
    )
    expect(error?.message).toBe('the object store does not answer')
    expect((error!.cause as Error).message).toMatch(/^a read in S3 failed: \S+: .+/)
    expect(JSON.stringify([error, error!.cause, (error!.cause as Error).message])).not.toMatch(/not-the-right-one|testing|Signature=/)
  }
})

/** The settings of a service that reaches the bucket through this port. */
const bucketAt = (port: number, prefix: string) => ({
  COB_S3_BUCKET: settings.bucket,
  COB_S3_ENDPOINT: `http://127.0.0.1:${port}`,
  COB_S3_ACCESS_KEY_ID: keys.accessKeyId,
  COB_S3_SECRET_ACCESS_KEY: keys.secretAccessKey,
  COB_S3_PREFIX: prefix,
})

interface Replay {
  replay_id: string
}

test('a service with a bucket keeps its replays there; one that ends while the store is away is ready when it is back', async () => {
  await using proxy = await breakable(Number(new URL(endpoint).port))
  await using cloud = await startFastCloud(bucketAt(proxy.port, 'service'))
  const { session_id: id } = await cloud.create()
  const record = async () => {
    const replay = (await (await cloud.send('POST', `/browsers/${id}/replays`, {})).json()) as Replay
    await sleep(200) // record a video of some length
    await cloud.fetch(`/browsers/${id}/replays/${replay.replay_id}/stop`, { method: 'POST' })
    return replay
  }
  const download = ({ replay_id }: Replay, range?: string) => cloud.fetch(`/browsers/${id}/replays/${replay_id}`, range ? { headers: { range } } : {})
  const ready = (replay: Replay) =>
    until('the video', SOON_MS, async () => download(replay).then((answer) => (answer.status === 200 ? answer.arrayBuffer() : undefined)), { everyMs: 100 })
  const first = await record()
  const film = Buffer.from(await ready(first))
  expect(film.toString('latin1', 4, 8)).toBe('ftyp')
  const part = await download(first, 'bytes=100-299')
  expect([part.status, Buffer.from(await part.arrayBuffer()).equals(film.subarray(100, 300))]).toEqual([206, true])

  proxy.isOpen = false
  const second = await record()
  await until('a report', SOON_MS, () => cloud.errors.some(({ message }) => message.includes('cannot be written down yet')), { everyMs: 50 })
  expect((await download(second)).status).toBe(202)
  expect(readdirSync(cloud.paths.spool)).toEqual([second.replay_id])
  proxy.isOpen = true
  expect(Buffer.from(await ready(second)).toString('latin1', 4, 8)).toBe('ftyp')
  await until('an empty spool', SOON_MS, () => readdirSync(cloud.paths.spool).length === 0)
  expect(existsSync(cloud.paths.objects) ? readdirSync(cloud.paths.objects) : []).toEqual([])
})

test('a service with a bucket keeps its extensions and profiles there, and uses them again when the store was away', async () => {
  await using proxy = await breakable(Number(new URL(endpoint).port))
  await using cloud = await startFastCloud({ ...bucketAt(proxy.port, 'dressed'), COB_PROFILE_MAX_MB: '8' })
  const stored = async (kind: string) =>
    ((await client.send(new ListObjectsV2Command({ Bucket: settings.bucket, Prefix: `dressed/${kind}/` }))).Contents ?? []).length
  // Longer than one part of an upload, and than one page of the object list.
  const noise = randomBytes(12 * 1024 * 1024)
  const zip = makeZip([
    { name: 'noise', content: noise, store: true },
    { name: 'manifest.json', content: JSON.stringify(MANIFEST) },
  ])
  const upload = (name: string) => cloud.fetch('/extensions', { method: 'POST', body: extensionForm(zip, name) })
  expect((await upload('noisy')).status).toBe(201)
  expect(Buffer.from(await (await cloud.fetch('/extensions/noisy')).arrayBuffer()).equals(zip)).toBe(true)
  expect((await cloud.send('POST', '/profiles', { name: 'kept' })).status).toBe(201)

  const options = { extensions: [{ name: 'noisy' }], profile: { name: 'kept', save_changes: true } }
  const remember = (id: string, text: string) => cloud.send('POST', `/browsers/${id}/computer/clipboard/write`, { text })
  const remembered = async (id: string) =>
    ((await (await cloud.fetch(`/browsers/${id}/computer/clipboard/read`, { method: 'POST' })).json()) as { text: string }).text
  const end = async (id: string) => expect((await cloud.fetch(`/browsers/${id}?wait=true`, { method: 'DELETE' })).status).toBe(204)
  const { session_id: first } = await cloud.create(options)
  expect(readFileSync(join(cloud.paths.instance(first), 'extensions', 'noisy', 'noise')).equals(noise)).toBe(true)
  // The text has 3 MiB.
  await remember(first, 'large text')
  await end(first)
  const { session_id: second } = await cloud.create(options)
  expect(await remembered(second)).toBe('large text')
  await remember(second, 'written while the store was away')

  proxy.isOpen = false
  expect((await upload('away')).status).toBe(503)
  const refused = await cloud.send('POST', '/browsers', { extensions: [{ name: 'noisy' }] })
  expect(refused.status).toBe(503)
  expect((await cloud.fetch(`/browsers/${second}`, { method: 'DELETE' })).status).toBe(204)
  proxy.isOpen = true
  const saved = async () => {
    const response = await cloud.send('POST', '/browsers', options)
    if (response.status !== 200) return response.status
    const { session_id: third } = (await response.json()) as { session_id: string }
    const text = await remembered(third)
    await end(third)
    return text
  }
  await expect.poll(saved, { timeout: SOON_MS, interval: 500 }).toBe('written while the store was away')

  for (const path of ['/extensions/noisy', '/profiles/kept']) expect((await cloud.fetch(path, { method: 'DELETE' })).status).toBe(204)
  await expect.poll(async () => [await stored('extensions'), await stored('profiles')], { timeout: SOON_MS }).toEqual([0, 0])
  expect(existsSync(cloud.paths.objects) ? readdirSync(cloud.paths.objects) : []).toEqual([])
})

/** A forwarder to the server. When it is closed, it refuses connections, and open ones end. */
async function breakable(target: number): Promise<AsyncDisposable & { port: number; isOpen: boolean }> {
  const sockets = new Set<Socket>()
  const way = { isOpen: true }
  const server = createServer((socket) => {
    if (!way.isOpen) return void socket.destroy()
    const other = connect(target, '127.0.0.1')
    for (const [one, to] of [
      [socket, other],
      [other, socket],
    ] as const) {
      sockets.add(one)
      one.on('error', () => {})
      one.once('close', () => {
        sockets.delete(one)
        to.destroy()
      })
      one.pipe(to)
    }
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const end = () => {
    for (const socket of sockets) socket.destroy()
  }
  return {
    port: (server.address() as AddressInfo).port,
    get isOpen() {
      return way.isOpen
    },
    set isOpen(isOpen) {
      way.isOpen = isOpen
      if (!isOpen) end()
    },
    async [Symbol.asyncDispose]() {
      end()
      server.close()
      await once(server, 'close')
    },
  }
}
