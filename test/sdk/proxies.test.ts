// The published SDKs with a running service: proxies. Every answer is checked against the contract.
import { BadRequestError, NotFoundError } from '@onkernel/sdk'
import { createServer } from 'node:http'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startCloud, type OwnCloud } from '../support/cloud.ts'
import { conforms } from '../support/contract.ts'
import { runPython } from '../support/python.ts'
import { httpProxy, serveSockets, socksProxy, type TestProxy } from '../support/upstreams.ts'

const LOGIN = { username: 'kim', password: 'password' }

const scope = new AsyncDisposableStack()
let cloud: OwnCloud
let server: TestProxy
let page: string
beforeAll(async () => {
  server = scope.use(await httpProxy({ login: LOGIN }))
  const { port } = scope.use(await serveSockets(createServer((_, reply) => void reply.end('{"ip":"203.0.113.7"}'))))
  page = `http://127.0.0.1:${port}/`
  cloud = scope.use(
    await startCloud({
      COB_WARM_BROWSERS: '0',
      COB_PROXY_CHECK_URL: page,
      COB_PROXY_RESIDENTIAL: `http://kim[-{country}]:CANARY-operator@127.0.0.1:${server.port}`,
    }),
  )
})
afterAll(() => scope.disposeAsync())

test('client.proxies creates, retrieves, lists, renames, checks and deletes', async () => {
  const { proxies } = cloud.client
  const config = { host: '127.0.0.1', port: server.port, ...LOGIN }
  const made = await proxies.create({ type: 'custom', name: 'mine', protocol: 'http', config, bypass_hosts: ['example.com', '*.Example.com'] })
  conforms('ProxyCreateResponse', made)
  expect(made).toMatchObject({ type: 'custom', name: 'mine', protocol: 'http', bypass_hosts: ['example.com', '*.example.com'] })
  expect(made.config).toEqual({ host: '127.0.0.1', port: server.port, username: 'kim', has_password: true, has_ca_bundle: false })
  const read = await proxies.retrieve(made.id!)
  conforms('ProxyRetrieveResponse', read)
  expect(read).toEqual(made)
  const renamed = await proxies.update(made.id!, { name: 'yours' })
  conforms('ProxyUpdateResponse', renamed)
  expect(renamed).toEqual({ ...made, name: 'yours' })
  const checked = await proxies.check(made.id!)
  conforms('ProxyCheckResponse', checked)
  expect(checked).toMatchObject({ id: made.id, status: 'available', ip_address: '203.0.113.7' })
  expect(await proxies.retrieve(made.id!)).toEqual(checked)
  const tried = await proxies.check(made.id!, { url: 'http://127.0.0.1:1/' })
  conforms('ProxyCheckResponse', tried)
  expect(tried.status).toBe('unavailable')
  expect(await proxies.retrieve(made.id!)).toEqual(checked)
  await proxies.delete(made.id!)
  for (const call of ['retrieve', 'check', 'delete'] as const) await expect(proxies[call](made.id!)).rejects.toBeInstanceOf(NotFoundError)
})

test('lists have pages', async () => {
  const { proxies } = cloud.client
  const made = [] as string[]
  for (let i = 0; i < 3; i++) made.push((await proxies.create({ type: 'custom', name: `page ${i}`, config: { host: 'proxy.test', port: 1 } })).id!)
  const listed = [] as (string | undefined)[]
  for await (const proxy of proxies.list({ query: 'PAGE', limit: 2 })) {
    conforms('ProxyListResponse', proxy)
    listed.push(proxy.id)
  }
  expect(listed).toEqual(made.toReversed())
})

test('types: those that the operator provides work, and others are refused by the setting that would', async () => {
  const { proxies } = cloud.client
  const made = await proxies.create({ type: 'residential' })
  conforms('ProxyCreateResponse', made)
  expect(await proxies.check(made.id!)).toMatchObject({ status: 'unavailable' })
  await expect(proxies.create({ type: 'mobile' })).rejects.toBeInstanceOf(BadRequestError)
  await expect(proxies.create({ type: 'mobile' })).rejects.toMatchObject({ error: { message: expect.stringMatching(/^type: .*COB_PROXY_MOBILE/) } })
  expect(cloud.log()).not.toContain('CANARY')
})

test("socks5, which is Cob's own", async () => {
  await using socks = await socksProxy({ login: LOGIN })
  const config = { host: '127.0.0.1', port: socks.port, ...LOGIN }
  const made = await cloud.client.proxies.create({ type: 'custom', protocol: 'socks5' as 'http', config })
  expect(await cloud.client.proxies.check(made.id!)).toMatchObject({ protocol: 'socks5', status: 'available', ip_address: '203.0.113.7' })
})

test.each(['0.84.0', '0.131.0'])('kernel %s for Python makes every call', async (release) => {
  await runPython(cloud, release, ['proxies.py', String(server.port), page])
})
