// Stores that are servers, over fake ones: Vault, 1Password Connect, `bw serve`. And answers that are refused from any server.
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, test } from 'vitest'
import { BackendProblem, type Backend } from './backend.ts'
import { bitwardenBackend } from './bitwarden.ts'
import { makeAsker } from './http.ts'
import { connectBackend } from './onepassword-connect.ts'
import { connectOnePassword, onePasswordBackend, type Client } from './onepassword.ts'
import { vaultBackend } from './vault.ts'

const never = new AbortController().signal
const asker = makeAsker({ allowHostLoopback: true })

interface Fake extends AsyncDisposable {
  url: string
  /** Method and path of each request, in order. */
  asked: string[]
}
type Answer = (request: IncomingMessage, path: string, body: unknown) => { status?: number; body?: unknown; headers?: Record<string, string> } | undefined

/** A server that answers JSON; 404 where `answer` has nothing. */
async function serve(answer: Answer): Promise<Fake> {
  const asked: string[] = []
  const respond = async (request: IncomingMessage, response: ServerResponse) => {
    const chunks: Buffer[] = []
    for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk)
    asked.push(`${request.method} ${request.url}`)
    const text = Buffer.concat(chunks).toString()
    const {
      status = 200,
      body = {},
      headers,
    } = answer(request, request.url!, text === '' ? undefined : JSON.parse(text)) ?? { status: 404, body: { errors: [] } }
    response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body))
  }
  const server: Server = createServer((request, response) => void respond(request, response))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    asked,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
const problem = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => 'none',
    (error: unknown) => {
      if (error instanceof BackendProblem) return error.message
      throw error
    },
  )
async function read(backend: Backend, title: string) {
  const item = (await backend.listItems(never)).find((one) => one.title === title)
  if (!item) throw new Error(`no item "${title}"`)
  return backend.resolve(item, never)
}

// ---- Vault ----

const SECRETS: Record<string, { data: Record<string, unknown> | null; metadata?: Record<string, string> }> = {
  'logins/site.test': { data: { username: 'kim', password: 'one', totp: 'jbsw y3dp ehpk 3pxp', port: 22, nested: { a: 1 }, url: 'https://in.site.test' } },
  'logins/team/other': { data: { login: 'lee', password: 'two' }, metadata: { urls: 'other.test, https://more.test/in' } },
  'logins/deleted': { data: null },
  'elsewhere/third': { data: { password: 'three' } },
}
const vault = (token = 'root'): Answer => {
  return (request, path, body) => {
    if (request.headers['x-vault-namespace'] !== undefined && request.headers['x-vault-namespace'] !== 'team') return { status: 404 }
    if (path === '/v1/auth/approle/login')
      return (body as { secret_id: string }).secret_id === 'right'
        ? { body: { auth: { client_token: token } } }
        : { status: 400, body: { errors: ['invalid secret id'] } }
    if (request.headers['x-vault-token'] !== token) return { status: 403, body: { errors: ['permission denied'] } }
    if (path === '/v1/auth/token/revoke-self') return { body: undefined }
    const [, kind, secret] = /^\/v1\/kv\/(metadata|data)\/([^?]*)/.exec(path) ?? []
    if (kind === undefined || secret === undefined) return undefined
    if (path.endsWith('?list=true')) {
      const below = Object.keys(SECRETS).filter((name) => secret === '' || name.startsWith(`${secret}/`))
      const keys = new Set(below.map((name) => /^[^/]+\/?/.exec(secret === '' ? name : name.slice(secret.length + 1))![0]))
      return keys.size === 0 ? undefined : { body: { data: { keys: [...keys] } } }
    }
    const found = SECRETS[decodeURIComponent(secret)]
    if (!found) return undefined
    return kind === 'metadata' ? { body: { data: { custom_metadata: found.metadata ?? null } } } : { body: { data: { data: found.data } } }
  }
}

test('vault: secrets below the prefix are listed with URLs of their metadata and paths, and read when they are needed', async () => {
  await using server = await serve(vault())
  const backend = vaultBackend(JSON.stringify({ address: server.url, token: 'root', mount: 'kv', prefix: '/logins/' }), asker)
  expect(await backend.listItems(never)).toEqual([
    { id: 'logins/deleted', title: 'deleted', vault: { id: 'kv/logins', name: 'kv/logins' }, urls: [] },
    { id: 'logins/site.test', title: 'site.test', vault: { id: 'kv/logins', name: 'kv/logins' }, urls: ['site.test'] },
    { id: 'logins/team/other', title: 'other', vault: { id: 'kv/logins/team', name: 'kv/logins/team' }, urls: ['other.test', 'https://more.test/in'] },
  ])
  expect(server.asked.some((line) => line.includes('/data/'))).toBe(false)
  expect((await backend.test(never)).map(({ name }) => name)).toEqual(['kv/logins', 'kv/logins/team'])
  expect(await read(backend, 'site.test')).toEqual({
    values: { username: 'kim', password: 'one', port: '22' },
    totp: 'JBSWY3DPEHPK3PXP',
    urls: ['site.test', 'https://in.site.test'],
  })
  expect(await read(backend, 'other')).toMatchObject({ values: { username: 'lee', password: 'two' } })
  expect(await problem(read(backend, 'deleted'))).toBe('the last version of the secret was deleted')
})

test('vault: an AppRole logs in for each call, and its token is revoked after it', async () => {
  await using server = await serve(vault('hvs.short'))
  const login = { address: server.url, role_id: 'cob', secret_id: 'right', mount: 'kv', namespace: 'team' }
  expect((await vaultBackend(JSON.stringify(login), asker).test(never)).map(({ name }) => name)).toEqual(['kv', 'kv/logins', 'kv/elsewhere'])
  expect([server.asked[0], server.asked.at(-1)]).toEqual(['POST /v1/auth/approle/login', 'POST /v1/auth/token/revoke-self'])
  expect(await problem(vaultBackend(JSON.stringify({ ...login, secret_id: 'wrong' }), asker).test(never))).toBe(
    'the role_id and the secret_id were not accepted',
  )
  expect(await problem(vaultBackend(JSON.stringify({ address: server.url, token: 'wrong', mount: 'kv' }), asker).test(never))).toMatch(
    /^the token was not accepted/,
  )
})

// ---- 1Password Connect ----

test('onepassword-connect: vaults and items are listed without their values, which are read when they are needed', async () => {
  const fields = [
    { id: 'username', type: 'STRING', purpose: 'USERNAME', label: 'username', value: 'kim' },
    { id: 'password', type: 'CONCEALED', purpose: 'PASSWORD', label: 'password', value: 'one' },
    { id: 'notesPlain', type: 'STRING', purpose: 'NOTES', label: 'notes', value: 'no value' },
    { id: 'x1', type: 'STRING', label: 'company_id', value: 'C-7' },
    { id: 'x2', type: 'OTP', label: 'one-time password', value: 'otpauth://totp/a?secret=JBSWY3DPEHPK3PXP', totp: '123456' },
  ]
  const item = { id: 'i1', title: 'Site', vault: { id: 'v1' }, urls: [{ primary: true, href: 'https://site.test' }] }
  await using server = await serve((request, path) => {
    if (request.headers.authorization !== 'Bearer right') return { status: 401 }
    if (path === '/v1/vaults') return { body: [{ id: 'v1', name: 'Logins' }] }
    if (path === '/v1/vaults/v1/items') return { body: [item, { id: 'i2', title: 'Old', state: 'ARCHIVED' }] }
    return path === '/v1/vaults/v1/items/i1' ? { body: { ...item, fields } } : undefined
  })
  const backend = connectBackend(JSON.stringify({ address: server.url, token: 'right' }), asker)
  expect(await backend.test(never)).toEqual([{ id: 'v1', name: 'Logins' }])
  expect(await backend.listItems(never)).toEqual([{ id: 'i1', title: 'Site', vault: { id: 'v1', name: 'Logins' }, urls: ['https://site.test'] }])
  expect(await read(backend, 'Site')).toEqual({
    values: { company_id: 'C-7', username: 'kim', password: 'one' },
    totp: 'otpauth://totp/a?secret=JBSWY3DPEHPK3PXP',
    urls: ['https://site.test'],
  })
  expect(await problem(backend.resolve({ id: 'i9', title: '', vault: { id: 'v1', name: '' }, urls: [] }, never))).toBe('the item does not exist any more')
  expect(await problem(connectBackend(JSON.stringify({ address: server.url, token: 'wrong' }), asker).test(never))).toBe('the token was not accepted')
})

// ---- 1Password by its SDK ----

const tokenFor = (signInAddress: unknown) => `ops_${Buffer.from(JSON.stringify({ signInAddress, secretKey: 'CANARY' })).toString('base64url')}`
const client: Client = {
  vaults: { list: async () => [{ id: 'v1', title: 'Logins' }] },
  items: {
    list: async (vaultId) => [
      {
        id: 'i1',
        title: 'Site',
        vaultId,
        websites: [
          { url: 'https://site.test', autofillBehavior: 'AnywhereOnWebsite' },
          { url: 'https://never.test', autofillBehavior: 'Never' },
        ],
      },
    ],
    get: async () => ({
      fields: [
        { id: 'username', title: 'username', fieldType: 'Text', value: 'kim' },
        { id: 'password', title: 'password', fieldType: 'Concealed', value: 'one' },
        { id: 'x1', title: 'company_id', fieldType: 'Text', value: 'C-7' },
        { id: 'x2', title: 'password', fieldType: 'Concealed', value: 'another' },
        { id: 'x3', title: 'code', fieldType: 'Totp', value: 'JBSWY3DPEHPK3PXP' },
        { id: 'x4', title: 'see', fieldType: 'Reference', value: 'op://x' },
      ],
      websites: [{ url: 'https://site.test' }],
    }),
  },
}

test('onepassword: vaults, items and values as the SDK gives them', async () => {
  const backend = onePasswordBackend(tokenFor('https://team.1password.com'), async () => client)
  expect(await backend.test(never)).toEqual([{ id: 'v1', name: 'Logins' }])
  expect(await backend.listItems(never)).toEqual([{ id: 'i1', title: 'Site', vault: { id: 'v1', name: 'Logins' }, urls: ['https://site.test'] }])
  expect(await read(backend, 'Site')).toEqual({
    values: { company_id: 'C-7', username: 'kim', password: 'one' },
    totp: 'JBSWY3DPEHPK3PXP',
    urls: ['https://site.test'],
  })
})

test('onepassword: a token for another server is refused before the SDK sees it, and what the SDK says stays here', async () => {
  const unused = async (): Promise<Client> => {
    throw new Error('the SDK was called')
  }
  for (const address of ['http://127.0.0.1', 'https://1password.com.evil.test', 'https://evil.test/1password.com', 'https://a@evil.test', 7, undefined])
    expect([address, await problem(onePasswordBackend(tokenFor(address), unused).test(never))]).toEqual([
      address,
      expect.stringMatching(/^(the token is for a server|this is no token)/),
    ])
  expect(await problem(onePasswordBackend('CANARY', unused).test(never))).toBe('this is no token of a service account of 1Password')
  const failing = async (): Promise<Client> => {
    throw new Error('CANARY')
  }
  expect(await problem(onePasswordBackend(tokenFor('my.1password.eu'), failing).test(never))).toBe('the token was not accepted, or 1Password cannot be reached')
})

test('onepassword: the SDK itself is loaded, and refuses a token that has only an address, without asking anybody', async () => {
  expect(await problem(onePasswordBackend(tokenFor('my.1password.com'), connectOnePassword).test(never))).toBe(
    'the token was not accepted, or 1Password cannot be reached',
  )
})

// ---- bw serve ----

test('bitwarden: a locked vault is unlocked; logins are listed by folders, without those in the trash and other kinds', async () => {
  let isLocked = true
  const login = {
    username: 'kim',
    password: 'one',
    totp: 'JBSWY3DPEHPK3PXP',
    uris: [
      { uri: 'https://site.test', match: null },
      { uri: '.*', match: 4 },
      { uri: 'https://no.test', match: 5 },
    ],
  }
  const items = [
    {
      id: 'i1',
      type: 1,
      name: 'Site',
      folderId: 'f1',
      deletedDate: null,
      login,
      fields: [
        { name: 'company_id', value: 'C-7', type: 0 },
        { name: 'linked', value: null, type: 3 },
      ],
    },
    { id: 'i2', type: 1, name: 'Trash', folderId: null, deletedDate: '2026-01-01', login },
    { id: 'i3', type: 2, name: 'Note', folderId: null },
    { id: 'i4', type: 1, name: 'Plain', folderId: null, login: { username: null, password: 'two', uris: null } },
  ]
  const ok = (data: unknown) => ({ body: { success: true, data } })
  await using server = await serve((_, path, body) => {
    if (path === '/status') return ok({ template: { status: isLocked ? 'locked' : 'unlocked' } })
    if (path === '/unlock') {
      if ((body as { password: string }).password !== 'master') return { status: 400, body: { success: false, message: 'Invalid master password.' } }
      isLocked = false
      return ok({ title: 'Your vault is now unlocked!' })
    }
    if (isLocked) return { status: 400, body: { success: false, message: 'Vault is locked.' } }
    if (path === '/list/object/folders')
      return ok({
        data: [
          { id: 'f1', name: 'Work' },
          { id: null, name: 'No Folder' },
        ],
      })
    if (path === '/list/object/items') return ok({ data: items })
    const found = items.find(({ id }) => path === `/object/item/${id}`)
    return found && ok(found)
  })
  const open = (password?: string) => bitwardenBackend(JSON.stringify({ address: server.url, password }), asker)
  expect(await problem(open().test(never))).toBe('the vault of "bw serve" is locked, and the token has no password')
  expect(await problem(open('wrong').test(never))).toBe('"bw serve" does not take the master password')
  expect((await open('master').test(never)).map(({ name }) => name)).toEqual(['Work', 'No Folder'])
  expect(await open().listItems(never)).toEqual([
    { id: 'i1', title: 'Site', vault: { id: 'f1', name: 'Work' }, urls: ['https://site.test'] },
    { id: 'i4', title: 'Plain', vault: { id: '', name: 'No Folder' }, urls: [] },
  ])
  expect(await read(open(), 'Site')).toEqual({
    values: { company_id: 'C-7', username: 'kim', password: 'one' },
    totp: 'JBSWY3DPEHPK3PXP',
    urls: ['https://site.test'],
  })
  expect(await problem(open().resolve({ id: 'i9', title: '', vault: { id: '', name: '' }, urls: [] }, never))).toBe('the item is not in the store any more')
})

// ---- any server ----

test('a redirect is not followed: the token goes to no other server', async () => {
  await using other = await serve(() => ({ body: [] }))
  await using server = await serve(() => ({ status: 302, headers: { location: `${other.url}/v1/vaults` } }))
  const backend = connectBackend(JSON.stringify({ address: server.url, token: 'CANARY' }), asker)
  expect(await problem(backend.test(never))).toMatch(/answers with a redirect, which is not followed$/)
  expect(other.asked).toEqual([])
})

test('an answer without end, of another form, or that is no JSON, is refused', async () => {
  const backend = (url: string) => connectBackend(JSON.stringify({ address: url, token: 'x' }), asker)
  await using large = await serve(() => ({ body: 'x'.repeat(17 * 1024 * 1024) }))
  expect(await problem(backend(large.url).test(never))).toMatch(/answers with more than 16777216 bytes/)
  await using odd = await serve(() => ({ body: [{ id: 7 }] }))
  expect(await problem(backend(odd.url).test(never))).toBe('the server answers in another form than expected, with status 200')
  const server = createServer((_, response) => void response.end('<CANARY>')).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  expect(await problem(backend(`http://127.0.0.1:${port}`).test(never))).toBe(`the answer of 127.0.0.1:${port} is not JSON`)
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
  expect(await problem(backend(`http://127.0.0.1:${port}`).test(never))).toBe(`127.0.0.1:${port} refuses connections`)
})

test('an address that is closed to callers is refused when the token is given, and at each request', async () => {
  await using server = await serve(() => ({ body: [] }))
  const backend = connectBackend(JSON.stringify({ address: server.url, token: 'x' }), makeAsker({ allowHostLoopback: false }))
  expect(await problem(backend.assertAllowed!(never))).toMatch(/is an address that is closed to callers/)
  expect(await problem(backend.test(never))).toMatch(/is an address that is closed to callers/)
  expect(server.asked).toEqual([])
})

test('a caller who goes away gets its own reason while a server is silent', async () => {
  const caller = new AbortController()
  const reason = new Error('gone')
  const server = createServer(() => caller.abort(reason)).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  await expect(connectBackend(JSON.stringify({ address: `http://127.0.0.1:${port}`, token: 'x' }), asker).test(caller.signal)).rejects.toBe(reason)
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
})
