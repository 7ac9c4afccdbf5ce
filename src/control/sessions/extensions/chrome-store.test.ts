// Extensions from a store that a test serves.
import { once } from 'node:events'
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { extensionIdOf, makeCrx, rsaSigner } from '../../../../test/support/crx.ts'
import { extensionForm, extensionZip } from '../../../../test/support/extensions.ts'
import { startFastCloud, type FastCloud } from '../../../../test/support/fast-cloud.ts'

const zip = extensionZip({ 'a.js': '1' })
const signer = rsaSigner()
const id = extensionIdOf(signer)
const crx = makeCrx(zip, [signer])
const PAGE = `https://chromewebstore.google.com/detail/marker/${id}`

let store: Server
let answer: RequestListener
let cloud: FastCloud
beforeAll(async () => {
  store = createServer((request, response) => answer(request, response)).listen(0, '127.0.0.1')
  await once(store, 'listening')
  cloud = await startFastCloud({ COB_WARM_BROWSERS: '0', COB_CHROME_STORE_URL: `${origin()}/update?fixed=1` })
})
afterAll(async () => {
  await cloud[Symbol.asyncDispose]()
  store.closeAllConnections()
  store.close()
})
const origin = () => `http://127.0.0.1:${(store.address() as AddressInfo).port}`
const get = (url: string, more = '') => cloud.fetch(`/extensions/from_chrome_store?url=${encodeURIComponent(url)}${more}`)
const refusal = async (url = PAGE) => {
  const response = await get(url)
  return [response.status, ((await response.json()) as { message: string }).message]
}

describe('an extension of the store', () => {
  test.each([
    PAGE,
    `${PAGE}?hl=de#reviews`,
    `https://chromewebstore.google.com/detail/${id}`,
    `https://chromewebstore.google.com/detail/caf%C3%A9/${id}/`,
    `https://chrome.google.com/webstore/detail/marker/${id}?hl=en`,
  ])('is found by its page %s', async (url) => {
    answer = (_, response) => response.end(crx)
    const response = await get(url)
    expect([response.status, response.headers.get('content-type')]).toEqual([200, 'application/octet-stream'])
    expect(Buffer.from(await response.arrayBuffer()).equals(zip)).toBe(true)
  })

  test('is asked for as Chromium asks, for the system that the caller names, and redirects are followed', async () => {
    const asked: string[] = []
    answer = (request, response) => {
      asked.push(request.url!)
      if (asked.length === 1) response.writeHead(302, { location: '/blobs/x.crx' }).end()
      else response.end(crx)
    }
    expect((await get(PAGE, '&os=mac')).status).toBe(200)
    const query = new URL(asked[0]!, origin()).searchParams
    expect(Object.fromEntries(query)).toMatchObject({ fixed: '1', response: 'redirect', os: 'mac', acceptformat: 'crx3', x: `id=${id}&uc` })
    expect(asked[1]).toBe('/blobs/x.crx')
  })

  test('can be stored as it comes', async () => {
    answer = (_, response) => response.end(crx)
    const bytes = new Uint8Array(await (await get(PAGE)).arrayBuffer())
    expect((await cloud.fetch('/extensions', { method: 'POST', body: extensionForm(bytes, 'from_chrome_store') })).status).toBe(201)
    // The download route of an extension with this name is taken by another route. Its metadata and its deletion still work.
    expect((await cloud.fetch('/extensions/from_chrome_store/metadata')).status).toBe(200)
    expect((await cloud.fetch('/extensions/from_chrome_store')).status).toBe(400)
    expect((await cloud.fetch('/extensions/from_chrome_store', { method: 'DELETE' })).status).toBe(204)
  })
})

test.each([
  'https://example.com/detail/x/' + id,
  `https://chromewebstore.google.com.example.com/detail/x/${id}`,
  `https://chromewebstore.google.com/detail/x/${id.slice(1)}`,
  `https://chromewebstore.google.com/category/${id}`,
  `ftp://chromewebstore.google.com/detail/x/${id}`,
  'http://127.0.0.1/',
  'no address',
])('%j is refused without asking the store', async (url) => {
  let wasAsked = false
  answer = (_, response) => ((wasAsked = true), response.end())
  expect([await refusal(url), wasAsked]).toEqual([[400, expect.stringMatching(/^url: must be the page of an extension/)], false])
})

test.each<[string, () => RequestListener, number, string]>([
  ['has no such extension', () => (_, response) => response.writeHead(204).end(), 404, `there is no extension in the Chrome Web Store "${id}"`],
  ['fails', () => (_, response) => response.writeHead(500).end('x'), 502, 'the Chrome Web Store answered 500'],
  [
    'breaks off',
    () => (_, response) => (response.writeHead(200, { 'content-length': '1000' }), response.write('x'), setTimeout(() => response.destroy(), 50)),
    502,
    'the answer of the Chrome Web Store broke off',
  ],
  ['closes the connection', () => (request) => request.socket.destroy(), 502, 'the Chrome Web Store cannot be reached'],
  ['sends a zip', () => (_, response) => response.end(zip), 502, 'what the Chrome Web Store sent is not a CRX file'],
  [
    'sends another extension',
    () => (_, response) => response.end(makeCrx(zip, [rsaSigner()])),
    502,
    `what the Chrome Web Store sent is not the extension ${id}`,
  ],
  [
    'sends a changed extension',
    () => (_, response) => response.end(Buffer.concat([crx, Buffer.from('x')])),
    502,
    'what the Chrome Web Store sent has a signature that does not hold',
  ],
  [
    'sends without end',
    () => (_, response) => {
      const more = () => void (response.destroyed || (response.write(Buffer.alloc(4 * 1024 * 1024)) ? setImmediate(more) : response.once('drain', more)))
      more()
    },
    502,
    'the extension is larger than',
  ],
  [
    'redirects without end',
    () => (_, response) => response.writeHead(302, { location: '/update' }).end(),
    502,
    'the Chrome Web Store redirects more than 5 times',
  ],
  [
    'redirects to plain HTTP elsewhere',
    () => (_, response) => response.writeHead(302, { location: 'http://127.0.0.1:1/' }).end(),
    502,
    'the Chrome Web Store redirects to an address that is not taken',
  ],
  [
    'redirects to a file',
    () => (_, response) => response.writeHead(302, { location: 'file:///etc/passwd' }).end(),
    502,
    'the Chrome Web Store redirects to an address that is not taken',
  ],
])('a store that %s is told of', async (_, made, status, message) => {
  answer = made()
  const [found, said] = await refusal()
  expect([found, String(said).slice(0, message.length)]).toEqual([status, message])
})

test('the service has logged no unexpected error', () =>
  expect(cloud.errors.filter(({ message }) => !/Chrome Web Store|the extension is larger/.test(message))).toEqual([]))
