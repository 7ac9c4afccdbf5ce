// Extensions, through the published SDK.
import { createHash } from 'node:crypto'
import { createServer } from 'node:http'
import { NotFoundError, ConflictError, BadRequestError } from '@onkernel/sdk'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { conforms } from '../support/contract.ts'
import { extensionIdOf, makeCrx, rsaSigner } from '../support/crx.ts'
import { startCloud, type OwnCloud } from '../support/cloud.ts'
import { extensionZip } from '../support/extensions.ts'
import { serveSockets } from '../support/upstreams.ts'

const zip = extensionZip({ 'a.js': '1' })
const signer = rsaSigner()
let cloud: OwnCloud
const ended = new AsyncDisposableStack()
beforeAll(async () => {
  const store = ended.use(await serveSockets(createServer((_, response) => response.end(makeCrx(zip, [signer])))))
  cloud = ended.use(await startCloud({ COB_CHROME_STORE_URL: `http://127.0.0.1:${store.port}/` }))
})
afterAll(() => ended.disposeAsync())
const file = (bytes: Uint8Array) => new File([new Uint8Array(bytes)], 'extension.zip')

test('an extension is uploaded, found, listed, downloaded and deleted', async () => {
  const { extensions } = cloud.client
  const made = await extensions.upload({ file: file(zip), name: 'marker' })
  conforms('ExtensionUploadResponse', made)
  expect(made).toMatchObject({ name: 'marker', size_bytes: zip.length, checksum: createHash('sha256').update(zip).digest('hex') })
  const found = await extensions.get('marker')
  conforms('ExtensionGetResponse', found)
  expect(found).toEqual(made)
  const other = await extensions.upload({ file: file(zip) })
  const listed = []
  for await (const one of extensions.list({ limit: 1 })) listed.push(one)
  conforms('ExtensionListResponse', listed, true)
  expect(listed.map(({ id }) => id)).toEqual([other.id, made.id])
  const bytes = Buffer.from(await (await extensions.download('marker')).arrayBuffer())
  expect(bytes.equals(zip)).toBe(true)
  await expect(extensions.upload({ file: file(zip), name: 'Marker' })).rejects.toBeInstanceOf(ConflictError)
  await expect(extensions.upload({ file: file(Buffer.from('no zip')) })).rejects.toBeInstanceOf(BadRequestError)
  for (const { id } of listed) await extensions.delete(id)
  await expect(extensions.get('marker')).rejects.toBeInstanceOf(NotFoundError)
})

test('a session loads a stored extension and one that is uploaded for it; one that does not exist is refused', async () => {
  const { browsers, extensions } = cloud.client
  await extensions.upload({ file: file(zip), name: 'stored' })
  const { session_id: id } = await browsers.create({ extensions: [{ name: 'stored' }] })
  await browsers.loadExtensions(id, { extensions: [{ name: 'own', zip_file: file(zip) }] })
  const folders = await browsers.fs.listFiles(id, { path: '/home/kernel/extensions' })
  expect(folders.map(({ name }) => name).toSorted()).toEqual(['own', 'stored'])
  expect((await extensions.get('stored')).last_used_at).toEqual(expect.any(String))
  await browsers.deleteByID(id)
  await expect(browsers.create({ extensions: [{ name: 'none' }] })).rejects.toBeInstanceOf(BadRequestError)
  await extensions.delete('stored')
})

test('an extension of the Chrome Web Store is downloaded as a zip', async () => {
  const url = `https://chromewebstore.google.com/detail/marker/${extensionIdOf(signer)}`
  const bytes = Buffer.from(await (await cloud.client.extensions.downloadFromChromeStore({ url, os: 'linux' })).arrayBuffer())
  expect(bytes.equals(zip)).toBe(true)
})
