// Rights to items of providers: an operator may use any, a key of one project only those whose URLs fit the site. And the limits that the engine gets.
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { keyOf } from '../../../../test/support/audit-log.ts'
import { fastCloud } from '../../../../test/support/fast-cloud.ts'
import { newId } from '../../../base/ids.ts'
import { DEFAULT_PROJECT } from '../../access/projects/resolve.ts'
import type { Connection } from './contract.ts'

let projectKey: string
let provider: string
const file = () => join(cloud.paths.root, 'credential-files', 'items.json')
const store = (items: object[]) => writeFileSync(file(), JSON.stringify({ items }), { mode: 0o600 })
const ITEMS = [
  { vault: 'Work', title: 'Shop', urls: ['https://shop.test/login'], values: { password: 'x' } },
  { vault: 'Work', title: 'Bank', urls: ['https://bank.test'], values: { password: 'x' } },
  { vault: 'Work', title: 'Note', values: { password: 'x' } },
]
const cloud = fastCloud({ COB_WARM_BROWSERS: '0' })
beforeAll(async () => {
  mkdirSync(join(cloud.paths.root, 'credential-files'))
  store(ITEMS)
  projectKey = (await keyOf(cloud, DEFAULT_PROJECT)).key
  const made = await cloud.send('POST', '/org/credential_providers', {
    name: 'team',
    provider_type: 'file',
    token: '{"file":"items.json"}',
    cache_ttl_seconds: 0,
  })
  provider = ((await made.json()) as { name: string }).name
}, 60_000)

const call = (method: string, path: string, body: object, key = projectKey) =>
  fetch(cloud.url + path, { method, headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' }, body: JSON.stringify(body) })
const create = (credential: object | undefined, { domain = 'shop.test', ...more }: { domain?: string } & object = {}, key = projectKey) =>
  call('POST', '/auth/connections', { domain, profile_name: `p-${newId()}`, ...(credential && { credential }), ...more }, key)
const made = async (answer: Response): Promise<string> => {
  if (answer.status > 201) throw new Error(`${answer.status}: ${await answer.text()}`)
  return ((await answer.json()) as Connection).id
}
const isOfProject = async (id: string) =>
  (await cloud.query<{ by_project_key: boolean }>('select by_project_key from auth_connections where id = $1', [id]))[0]!.by_project_key
const refusal = async (answer: Response) => [answer.status, ((await answer.json()) as { message: string }).message]
const NOT_MEANT = (domain: string) => [400, expect.stringContaining(`no item at this path with a URL of ${domain}`)]

test('a key of one project gets an item for the site that it is meant for, and for names below it', async () => {
  expect(await isOfProject(await made(await create({ provider, path: 'Work/Shop' })))).toBe(true)
  await made(await create({ provider, path: 'Work/Shop' }, { domain: 'login.shop.test' }))
})

test('a key of one project gets no item for another site, and is not told whether there is one', async () => {
  for (const path of ['Work/Bank', 'Work/Note', 'Work/Nothing'])
    expect([path, ...(await refusal(await create({ provider, path }, { domain: 'evil.example' })))]).toEqual([path, ...NOT_MEANT('evil.example')])
  expect(await cloud.query(`select id from auth_connections where domain = 'evil.example'`)).toEqual([])
  const id = await made(await create(undefined))
  expect(await refusal(await call('PATCH', `/auth/connections/${id}`, { credential: { provider, path: 'Work/Bank' } }))).toEqual(NOT_MEANT('shop.test'))
  expect((await (await cloud.fetch(`/auth/connections/${id}`)).json()) as Connection).not.toHaveProperty('credential')
})

test('a key of the whole organization gets any item, at any site', async () => {
  const id = await made(await create({ provider, path: 'Work/Bank' }, { domain: 'sso.example' }, cloud.key))
  expect(await isOfProject(id)).toBe(false)
})

test('what a key of one project changes of an operator’s connection is its own from then on, until an operator names the credential again', async () => {
  const id = await made(await create({ provider, path: 'Work/Shop' }, {}, cloud.key))
  const change = (changes: object, key = projectKey) => call('PATCH', `/auth/connections/${id}`, changes, key)
  expect([(await change({ auto_reauth: false })).status, await isOfProject(id)]).toEqual([200, false])
  expect([(await change({ allowed_domains: ['evil.example'] })).status, await isOfProject(id)]).toEqual([200, true])
  expect([(await change({ auto_reauth: true }, cloud.key)).status, await isOfProject(id)]).toEqual([200, true])
  expect([(await change({ credential: { provider, path: 'Work/Bank' } }, cloud.key)).status, await isOfProject(id)]).toEqual([200, false])
  expect(await refusal(await change({ allowed_domains: ['evil.example'] }))).toEqual(NOT_MEANT('shop.test'))
  expect(await isOfProject(id)).toBe(false)
})

test('a proxy that a key of one project chooses makes the connection its own, and one login that it chooses a proxy for', async () => {
  const config = { host: 'proxy.example', port: 8080 }
  const created = (await (await call('POST', '/proxies', { type: 'custom', protocol: 'http', config })).json()) as { id: string }
  const proxy = { id: created.id }
  const id = await made(await create({ provider, path: 'Work/Shop' }, {}, cloud.key))
  const asked = async (body: object, key?: string) => {
    expect((await call('POST', `/auth/connections/${id}/login`, body, key)).status).toBe(200)
    const [flow] = await cloud.query<{ by: boolean | null }>(
      `update auth_flows set state = 'CANCELED' where connection_id = $1 and state = 'IN_PROGRESS' returning (asked->>'by_project_key')::boolean as by`,
      [id],
    )
    return flow!.by
  }
  expect(await asked({ browser: { proxy } }, cloud.key)).toBeNull()
  expect([await asked({}), await asked({ browser: { proxy: { mode: 'direct' } } }), await asked({ browser: { proxy } })]).toEqual([null, null, true])
  expect(await isOfProject(id)).toBe(false)
  await made(await call('PATCH', `/auth/connections/${id}`, { browser: { proxy: { mode: 'direct' } } }))
  expect(await isOfProject(id)).toBe(false)
  await made(await call('PATCH', `/auth/connections/${id}`, { browser: { proxy } }))
  expect(await isOfProject(id)).toBe(true)
})

test('a provider that cannot be asked now does not keep a connection from being made: the login asks it', async () => {
  writeFileSync(file(), 'no list', { mode: 0o600 })
  await made(await create({ provider, path: 'Work/Bank' }, { domain: 'later.example' }))
  store(ITEMS)
})
