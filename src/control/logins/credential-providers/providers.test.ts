// Credential providers: who may manage them, refused values, caching, the values for the login engine, and that secrets do not leak.
import { fixedKeys } from '../../../base/keys.ts'
import { chmodSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { keyOf } from '../../../../test/support/audit-log.ts'
import { startFastCloud, type FastCloud } from '../../../../test/support/fast-cloud.ts'
import { newId } from '../../../base/ids.ts'
import { silentLog } from '../../../base/log.ts'
import { makeSealer } from '../../../base/sealed.ts'
import { connectDb, type Db } from '../../../store/db.ts'
import { DEFAULT_PROJECT } from '../../access/projects/resolve.ts'
import type { CredentialProvider, ProviderItem, TestResult } from './contract.ts'
import { CredentialProviders } from './providers.ts'
import { ProviderProblem } from './resolve.ts'

const PATH = '/org/credential_providers'
const never = new AbortController().signal

let cloud: FastCloud
let dir: string
let db: Db
/** The same rules over the same database, for the login engine. */
let providers: CredentialProviders
beforeAll(async () => {
  cloud = await startFastCloud({ COB_WARM_BROWSERS: '0' })
  dir = join(cloud.paths.root, 'credential-files')
  mkdirSync(dir)
  db = connectDb({ host: cloud.paths.postgresSocket, user: 'cob', database: 'postgres' }, silentLog)
  const secretKey = Buffer.from(readFileSync(cloud.paths.secretKey, 'utf8').trim(), 'hex')
  providers = new CredentialProviders({
    db,
    keys: fixedKeys(secretKey),
    config: { credentialFilesDir: dir, allowHostLoopback: false },
    assertOrganization: () => {},
    log: silentLog,
  })
})
afterAll(async () => {
  await db.destroy()
  await cloud[Symbol.asyncDispose]()
})

interface Stored {
  title: string
  vault?: string
  urls?: string[]
  values: Record<string, string>
  totp?: string
}
/** Writes a store of the type `file`. Returns its token. */
function store(name: string, items: Stored[], mode = 0o600): string {
  writeFileSync(join(dir, name), JSON.stringify({ items }), { mode })
  chmodSync(join(dir, name), mode)
  return JSON.stringify({ file: name })
}
const wanted = (more: object = {}) => ({ name: `p-${newId()}`, provider_type: 'file', token: '{"file":"missing.json"}', ...more })
async function create(more: object = {}): Promise<CredentialProvider> {
  const answer = await cloud.send('POST', PATH, wanted(more))
  if (answer.status !== 201) throw new Error(`${answer.status}: ${await answer.text()}`)
  return (await answer.json()) as CredentialProvider
}
const change = (id: string, changes: object) => cloud.send('PATCH', `${PATH}/${id}`, changes)
const remove = async (id: string) => (await cloud.fetch(`${PATH}/${id}`, { method: 'DELETE' })).status
const tried = async (id: string) => {
  const answer = await cloud.fetch(`${PATH}/${id}/test`, { method: 'POST' })
  return [answer.status, (await answer.json()) as TestResult] as const
}
const itemsOf = async (id: string) => ((await (await cloud.fetch(`${PATH}/${id}/items`)).json()) as { items: ProviderItem[] }).items
const message = async (answer: Response) => ((await answer.json()) as { message: string }).message
const problem = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => 'none',
    (error: unknown) => {
      if (error instanceof ProviderProblem) return `${error.code}: ${error.message}`
      throw error
    },
  )

test('a provider is created, found by its id alone, listed in the order of priorities, changed and deleted', async () => {
  const made = await create({ name: 'Own é' })
  expect(made).toEqual({
    id: expect.stringMatching(/^[a-z][a-z0-9]{23}$/),
    name: 'Own é',
    provider_type: 'file',
    enabled: true,
    priority: 0,
    created_at: expect.any(String),
    updated_at: expect.any(String),
  })
  expect(await (await cloud.fetch(`${PATH}/${made.id}`)).json()).toEqual(made)
  expect((await cloud.fetch(`${PATH}/${encodeURIComponent('Own é')}`)).status).toBe(404)
  const other = await create()
  const listed = async (query: string) => (await (await cloud.fetch(`${PATH}?${query}`)).json()) as CredentialProvider[]
  expect(await listed('')).toEqual([made, other])
  const first = (await (await change(other.id, { priority: -1, enabled: false, cache_ttl_seconds: 0 })).json()) as CredentialProvider
  expect(first).toMatchObject({ ...other, priority: -1, enabled: false, updated_at: expect.any(String) })
  expect(Date.parse(first.updated_at)).toBeGreaterThan(Date.parse(other.updated_at))
  expect(await listed('')).toEqual([first, made])
  expect(await listed('query=OWN')).toEqual([made])
  const page = await cloud.fetch(`${PATH}?limit=1`)
  expect([await page.json(), page.headers.get('x-has-more'), page.headers.get('x-next-offset')]).toEqual([[first], 'true', '1'])
  expect(await (await change(made.id, {})).json()).toEqual(made)
  expect([await providers.idOf('own É'), await providers.idOf(made.id), await providers.idOf('nothing')]).toEqual([made.id, made.id, undefined])
  expect([await remove(made.id), await remove(made.id), (await change(made.id, { name: 'x' })).status, await remove(other.id)]).toEqual([204, 404, 404, 204])
  for (const below of ['', '/items']) expect((await cloud.fetch(`${PATH}/${made.id}${below}`)).status).toBe(404)
  expect((await tried(made.id))[0]).toBe(404)
})

test('a name is unique without case, also when it is changed to, and free again after a deletion', async () => {
  const [one, two] = [await create({ name: 'Unique' }), await create()]
  expect((await cloud.send('POST', PATH, wanted({ name: 'UNIQUE' }))).status).toBe(409)
  expect((await change(two.id, { name: 'unique' })).status).toBe(409)
  await remove(one.id)
  expect((await change(two.id, { name: 'unique' })).status).toBe(200)
  await remove(two.id)
})

const REFUSED: [object, string][] = [
  [{ name: ' ' }, 'name: '],
  [{ name: 'abcdefghijklmnopqrstuvwx' }, 'name: must not look like an id'],
  [{ name: 'a\nb' }, 'name: must have no control characters'],
  [{ provider_type: 'lastpass' }, 'provider_type: '],
  [{ token: '' }, 'token: '],
  [{ token: 'not json: CANARY' }, 'token: must be JSON for this type'],
  [{ token: '{"file":7}' }, 'token: its property "file": '],
  [{ token: '{"file":"../../etc/passwd"}' }, 'token: its property "file": must be a path without ".."'],
  [{ token: '{"file":"a","CANARY":1}' }, 'token: has a property that is not known'],
  [{ provider_type: 'keepass' }, 'provider_type: '],
  [{ provider_type: 'command', token: '{"secret":"a"}' }, 'token: its property "program": '],
  [{ provider_type: 'command', token: '{"program":"a","secret":"two\\nlines"}' }, 'token: its property "secret": must be one line'],
  [{ cache_ttl_seconds: -1 }, 'cache_ttl_seconds: '],
  [{ cache_ttl_seconds: 86_401 }, 'cache_ttl_seconds: '],
  [{ priority: 1 }, 'priority: there is no such property'],
]
test.each(REFUSED.map(([wrong, text]) => [JSON.stringify(wrong).slice(0, 80), wrong, text] as const))(
  '%s is refused, and the field is named without its value',
  async (_, wrong, text) => {
    const answer = await cloud.send('POST', PATH, wanted(wrong))
    const said = await message(answer)
    expect([answer.status, said]).toEqual([400, expect.stringContaining(text)])
    expect(said).not.toContain('CANARY')
  },
)

test('a new token has the form of the type that the provider has', async () => {
  const { id } = await create({ provider_type: 'command', token: '{"program":"a"}' })
  const answer = await change(id, { token: '{"file":"a"}' })
  expect([answer.status, await message(answer)]).toEqual([400, expect.stringMatching(/^token: (its property "program": |has a property that is not known)/)])
  await remove(id)
})

test('a key of a project sees which providers there are, and cannot manage, try or look into one', async () => {
  const made = await create()
  const { key } = await keyOf(cloud, DEFAULT_PROJECT)
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  const ask = (method: string, below: string, body?: object) =>
    fetch(cloud.url + PATH + below, { method, headers: body ? headers : { authorization: headers.authorization }, ...(body && { body: JSON.stringify(body) }) })
  expect(await (await ask('GET', `/${made.id}`)).json()).toEqual(made)
  expect(await (await ask('GET', '')).json()).toEqual([made])
  const refused = [
    await ask('POST', '', wanted()),
    await ask('PATCH', `/${made.id}`, { name: 'mine' }),
    await ask('DELETE', `/${made.id}`),
    await ask('GET', `/${made.id}/items`),
    await ask('POST', `/${made.id}/test`),
  ]
  expect(refused.map(({ status }) => status)).toEqual([403, 403, 403, 403, 403])
  expect(await (await cloud.fetch(`${PATH}/${made.id}`)).json()).toEqual(made)
  await remove(made.id)
})

test('test says whether the store can be read, with status 200 in both cases, and why not', async () => {
  const token = store('open.json', [
    { title: 'a', values: { password: '1' } },
    { title: 'b', vault: 'Work', values: { password: '2' } },
  ])
  const { id } = await create({ token })
  const vaults = [
    { id: 'File', name: 'File' },
    { id: 'Work', name: 'Work' },
  ]
  expect(await tried(id)).toEqual([200, { success: true, vaults }])
  chmodSync(join(dir, 'open.json'), 0o640)
  expect(await tried(id)).toEqual([200, { success: false, vaults: [], error: expect.stringMatching(/"open.json": its mode must be 0600$/) }])
  writeFileSync(join(dir, 'open.json'), '{"items": CANARY}', { mode: 0o600 })
  chmodSync(join(dir, 'open.json'), 0o600)
  expect(await tried(id)).toEqual([200, { success: false, vaults: [], error: 'the file is not JSON' }])
  rmSync(join(dir, 'open.json'))
  expect(await tried(id)).toEqual([200, { success: false, vaults: [], error: 'there is no "open.json" in the folder of credential files' }])
  const answer = await cloud.fetch(`${PATH}/${id}/items`)
  expect([answer.status, await message(answer)]).toEqual([502, expect.stringMatching(/does not answer: there is no "open.json"/)])
  await remove(id)
})

test('items have paths of vault and title, and no values', async () => {
  const token = store('items.json', [{ title: 'Site', vault: 'Work', urls: ['site.test'], values: { password: 'CANARY' }, totp: 'CANARY' }])
  const { id } = await create({ token })
  expect(await itemsOf(id)).toEqual([{ id: 'Work/Site', path: 'Work/Site', title: 'Site', vault_id: 'Work', vault_name: 'Work', urls: ['site.test'] }])
  await remove(id)
})

test('the list of items is remembered for its time, until the provider is changed; values never are', async () => {
  const one = (password: string, title = 'Site') => store('cached.json', [{ title, urls: ['site.test'], values: { password } }])
  const { id } = await create({ token: one('first') })
  const titles = async () => (await itemsOf(id)).map(({ title }) => title)
  const password = async () => (await providers.resolve(id, { domain: 'site.test' }, never)).values.password
  expect([await titles(), await password()]).toEqual([['Site'], 'first'])
  one('second')
  expect(await password()).toBe('second')
  one('third', 'Renamed')
  expect(await titles()).toEqual(['Site'])
  expect(await problem(password())).toMatch(/^credential_not_found: .* not in the file any more$/)
  // An item that is not in the cached list is searched in a fresh one.
  expect((await providers.resolve(id, { path: 'File/Renamed' }, never)).values.password).toBe('third')
  await change(id, { cache_ttl_seconds: 0 })
  expect(await titles()).toEqual(['Renamed'])
  one('fourth', 'Again')
  expect(await titles()).toEqual(['Again'])
  await remove(id)
})

test('a credential is found by path or domain, with an email address for forms that ask for one', async () => {
  const token = store('resolve.json', [
    { title: 'Parent', urls: ['example.test'], values: { username: 'kim', password: '1' } },
    { title: 'Exact', urls: ['https://login.example.test/in'], values: { username: 'kim@example.test', password: '2', pin: '3' }, totp: 'JBSWY3DPEHPK3PXP' },
    { title: 'Twice', values: {} },
    { title: 'Twice', values: {} },
  ])
  const { id } = await create({ token })
  const exact = {
    values: { username: 'kim@example.test', email: 'kim@example.test', password: '2', pin: '3' },
    totp: 'JBSWY3DPEHPK3PXP',
    urls: ['https://login.example.test/in'],
    title: 'Exact',
  }
  expect(await providers.resolve(id, { domain: 'login.example.test' }, never)).toEqual(exact)
  expect(await providers.resolve(id, { path: 'File/Exact' }, never)).toEqual(exact)
  expect(await providers.resolve(id, { domain: 'www.example.test' }, never)).toMatchObject({ title: 'Parent', values: { username: 'kim', password: '1' } })
  expect((await providers.resolve(id, { path: 'File/Parent' }, never)).values).not.toHaveProperty('email')
  const failing = async (by: { path: string; domain?: string } | { domain: string }, of = id) => problem(providers.resolve(of, by, never))
  expect(await failing({ domain: 'notexample.test' })).toMatch(/^credential_not_found: .*no item for this domain$/)
  expect(await failing({ path: 'Exact' })).toMatch(/^credential_not_found: .*no item at this path$/)
  expect(await failing({ path: 'File/Twice' })).toMatch(/^credential_not_found: 2 items .* have this path/)
  // For a domain: an item that does not fit it looks like a missing one.
  const forDomain = (path: string, domain: string) => failing({ path, domain })
  const absent = await forDomain('File/Absent', 'login.example.test')
  expect(absent).toMatch(/^credential_not_found: .*no item at this path for this domain$/)
  expect([await forDomain('File/Exact', 'other.test'), await forDomain('File/Twice', 'login.example.test')]).toEqual([absent, absent])
  expect((await providers.resolve(id, { path: 'File/Exact', domain: 'in.login.example.test' }, never)).title).toBe('Exact')
  expect(await failing({ path: 'File/Exact' }, newId())).toMatch(/^provider_unavailable: there is no credential provider/)
  await change(id, { enabled: false })
  expect(await failing({ path: 'File/Exact' })).toMatch(/^provider_unavailable: .* is disabled$/)
  await change(id, { enabled: true })
  rmSync(join(dir, 'resolve.json'))
  expect(await failing({ path: 'File/Exact' })).toMatch(/^provider_unavailable: .* there is no "resolve.json"/)
  await remove(id)
})

test('a caller who goes away is told its own reason', async () => {
  const { id } = await create({ token: store('gone.json', []) })
  const reason = new Error('gone')
  await expect(providers.resolve(id, { domain: 'a.test' }, AbortSignal.abort(reason))).rejects.toBe(reason)
  await remove(id)
})

test('with another secret key the token is not read, and a new one can be set', async () => {
  const { id } = await create({ token: store('key.json', []) })
  await cloud.query('update credential_providers set token = $1 where id = $2', [makeSealer(fixedKeys(Buffer.alloc(32)), 'other').seal('x', id), id])
  expect(await tried(id)).toEqual([200, { success: false, vaults: [], error: expect.stringMatching(/cannot be read with the secret key/) }])
  expect((await change(id, { token: '{"file":"key.json"}' })).status).toBe(200)
  expect(await tried(id)).toEqual([200, { success: true, vaults: [] }])
  await remove(id)
})

test('tokens and values are in no answer, no log, and no byte of the database and the audit log', async () => {
  const [inToken, inValue, inTotp] = [`CANARY-${newId()}`, `CANARY-${newId()}`, 'CANARYTOTPSECRET234567']
  mkdirSync(join(dir, inToken))
  writeFileSync(
    join(dir, inToken, 'items.json'),
    JSON.stringify({ items: [{ title: 'Site', urls: ['site.test'], values: { password: inValue }, totp: inTotp }] }),
    {
      mode: 0o600,
    },
  )
  const created = await cloud.send('POST', PATH, wanted({ token: JSON.stringify({ file: `${inToken}/items.json` }) }))
  const answers = [await created.text()]
  const { id } = JSON.parse(answers[0]!) as CredentialProvider
  for (const [method, below, body] of [
    ['GET', `/${id}`],
    ['GET', ''],
    ['GET', `/${id}/items`],
    ['POST', `/${id}/test`],
    ['PATCH', `/${id}`, { token: JSON.stringify({ file: `${inToken}/items.json` }), name: 'canary' }],
    ['PATCH', `/${id}`, { token: JSON.stringify({ file: `${inToken}/items.json`, more: inToken }) }],
    ['PATCH', `/${id}`, { token: JSON.stringify({ file: `../${inToken}` }) }],
    ['POST', '', { name: 'x', provider_type: 'command', token: JSON.stringify({ program: inToken, secret: { text: inToken } }) }],
    ['POST', '', { name: 'x', provider_type: inToken, token: inToken }],
  ] as [string, string, object?][])
    answers.push(await (body ? await cloud.send(method, PATH + below, body) : await cloud.fetch(PATH + below, { method })).text())
  expect((await providers.resolve(id, { domain: 'site.test' }, never)).values.password).toBe(inValue)
  await cloud.query('checkpoint')
  const secrets = [inToken, inValue, inTotp].flatMap((secret) => [
    secret,
    Buffer.from(secret).toString('base64').slice(0, -4),
    Buffer.from(secret).toString('hex'),
  ])
  const texts: [string, Buffer][] = [
    ...answers.map((text, index): [string, Buffer] => [`answer ${index}`, Buffer.from(text)]),
    ['log', Buffer.from(JSON.stringify(cloud.errors))],
    ...filesBelow(cloud.paths.root)
      .filter((path) => !path.startsWith(dir))
      .map((path): [string, Buffer] => [path, readFileSync(path)]),
  ]
  expect(texts.length).toBeGreaterThan(100)
  expect(texts.filter(([, bytes]) => secrets.some((secret) => bytes.includes(secret))).map(([name]) => name)).toEqual([])
  // To check the search itself: it finds a text that exists.
  expect(texts.some(([name, bytes]) => name.includes('postgres') && bytes.includes(id))).toBe(true)
  await remove(id)
})

const filesBelow = (root: string): string[] =>
  readdirSync(root, { recursive: true, encoding: 'utf8' })
    .map((name) => join(root, name))
    .filter((path) => statSync(path, { throwIfNoEntry: false })?.isFile())

test('the hundredth provider is the last one', async () => {
  const there = ((await (await cloud.fetch(`${PATH}?limit=100`)).json()) as object[]).length
  const made = await Promise.all(Array.from({ length: 100 - there }, () => create()))
  const answer = await cloud.send('POST', PATH, wanted())
  expect([answer.status, await message(answer)]).toEqual([409, expect.stringContaining('the limit')])
  expect(await Promise.all(made.map(({ id }) => remove(id)))).toEqual(made.map(() => 204))
})
