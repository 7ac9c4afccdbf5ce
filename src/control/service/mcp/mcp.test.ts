// The MCP server over fake browsers: which callers may use it, which tools it lists, and that tools are the API with the caller's own rights.
import { request as httpRequest } from 'node:http'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startFastCloud, type FastCloud } from '../../../../test/support/fast-cloud.ts'
import { freePort } from '../../../../test/support/free-port.ts'
import { connectMcp, GENERATIONS, type McpClient } from '../../../../test/support/mcp.ts'
import { OURS, signedIn } from '../../../../test/support/people.ts'
import { MCP_TOOLSETS } from '../../../base/mcp-toolsets.ts'
import { within } from '../../../base/wait.ts'
import { DEFAULT_PROJECT } from '../../access/projects/resolve.ts'

/** A deleted key is noticed within half a second; on a busy machine later. */
const REVOKED_MS = 10_000
const TOOLS = `manage_browsers manage_profiles manage_projects manage_api_keys manage_browser_pools manage_proxies manage_replays manage_extensions manage_apps
  manage_auth_connections manage_credentials manage_credential_providers get_connection_context computer_action browser_curl execute_playwright_code exec_command
  search_docs`
const PUBLIC = 'https://browsers.example.org'

let cloud: FastCloud
let client: McpClient
beforeAll(async () => {
  cloud = await startFastCloud()
  client = await connectMcp(cloud.url, cloud.key)
})
afterAll(async () => {
  await client[Symbol.asyncDispose]()
  await cloud[Symbol.asyncDispose]()
})

const ACCEPT = { accept: 'application/json, text/event-stream', 'content-type': 'application/json' }
const LIST = { jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} }

const post = (body: unknown, headers: Record<string, string> = {}, of = cloud) =>
  fetch(`${of.url}/mcp`, {
    method: 'POST',
    headers: { ...ACCEPT, authorization: `Bearer ${of.key}`, ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  })

/** A request with headers that fetch does not allow to set. */
function postAs(headers: Record<string, string>, of: { url: string; key: string } = cloud): Promise<{ status: number; body: string }> {
  const { promise, resolve, reject } = Promise.withResolvers<{ status: number; body: string }>()
  const sent = httpRequest(`${of.url}/mcp`, { method: 'POST', headers: { ...ACCEPT, authorization: `Bearer ${of.key}`, ...headers } }, (response) => {
    let body = ''
    response.on('data', (chunk: Buffer) => (body += chunk.toString())).on('end', () => resolve({ status: response.statusCode!, body }))
  })
  sent.on('error', reject).end(JSON.stringify(LIST))
  return promise
}

const made = async (path: string, body: object) => (await (await cloud.send('POST', path, body)).json()) as { id: string; key: string; name: string }

describe('who may ask', () => {
  test.each([
    ['no key', {}],
    ['a wrong key', { authorization: 'Bearer cob_wrong' }],
  ])('%s: 401, with the place where to get one', async (_, headers) => {
    const response = await fetch(`${cloud.url}/mcp`, { method: 'POST', headers: { ...ACCEPT, ...headers }, body: JSON.stringify(LIST) })
    expect([response.status, response.headers.get('www-authenticate')]).toEqual([
      401,
      `Bearer resource_metadata="${cloud.url}/.well-known/oauth-protected-resource"`,
    ])
    expect(await response.json()).toMatchObject({ code: 'unauthorized' })
  })

  test('pages of other origins are refused, also with a key, and before it is looked at', async () => {
    for (const origin of ['https://evil.example', 'null', `${cloud.url}.evil.example`, 'http://127.0.0.1:1'])
      expect(await postAs({ origin })).toMatchObject({ status: 403, body: expect.stringContaining('"code":"forbidden"') })
    expect((await postAs({ origin: 'https://evil.example', authorization: '' })).status).toBe(403)
  })

  test('a page of the service itself may ask; one whose name was led here may not', async () => {
    const { host, port } = new URL(cloud.url)
    expect((await postAs({ origin: cloud.url })).status).toBe(200)
    for (const name of ['localhost', '[::1]', 'cob.localhost'])
      expect((await postAs({ origin: `http://${name}:${port}`, host: `${name}:${port}` })).status).toBe(200)
    for (const name of ['rebound.example', 'localhost.example'])
      expect((await postAs({ origin: `http://${name}:${port}`, host: `${name}:${port}` })).status).toBe(403)
    expect((await postAs({ origin: `https://${host}` })).status).toBe(403)
  })

  test('behind a proxy the origin is the one that is set, and no other', async () => {
    const port = await freePort()
    await using behind = await startFastCloud({ COB_PUBLIC_URL: PUBLIC, COB_PORT: String(port) })
    const there = { url: `http://127.0.0.1:${port}`, key: behind.key }
    expect((await postAs({ origin: PUBLIC }, there)).status).toBe(200)
    for (const origin of [there.url, PUBLIC.replace('https:', 'http:')]) expect((await postAs({ origin }, there)).status).toBe(403)
    const response = await fetch(`${there.url}/mcp`, { method: 'POST' })
    expect(response.headers.get('www-authenticate')).toBe(`Bearer resource_metadata="${PUBLIC}/.well-known/oauth-protected-resource"`)
  })
})

describe('the transport', () => {
  test.each(['GET', 'DELETE', 'PUT'])('%s is refused: there is no session and no stream besides answers', async (method) => {
    const response = await cloud.fetch('/mcp', { method })
    expect([response.status, response.headers.get('allow')]).toEqual([405, 'POST'])
  })

  test('a message needs none before it, so that any replica can answer it', async () => {
    const response = await post(LIST, { 'mcp-protocol-version': '2025-06-18' })
    expect([response.status, response.headers.get('content-type'), response.headers.get('mcp-session-id')]).toEqual([200, 'text/event-stream', null])
    expect(await response.text()).toContain('"name":"manage_browsers"')
  })

  test('what is no message is refused', async () => {
    expect((await post('{')).status).toBe(400)
    expect((await post([LIST, LIST])).status).toBe(400)
    expect((await post(LIST, { 'content-type': 'text/plain' })).status).toBe(415)
    expect((await post(LIST, { 'mcp-protocol-version': '1999-01-01' })).status).toBe(400)
    expect((await post(`{"a":[${'0,'.repeat(700_000)}0]}`)).status).toBe(400)
    expect((await post(`"${'a'.repeat(8 * 1024 * 1024)}"`)).status).toBe(413)
  })

  test('a subscription is refused at once, because there is nothing to tell', async () => {
    const meta = {
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientInfo': { name: 'x', version: '1' },
      'io.modelcontextprotocol/clientCapabilities': {},
    }
    const params = { _meta: meta, notifications: { toolsListChanged: true } }
    const response = await post(
      { jsonrpc: '2.0', id: 1, method: 'subscriptions/listen', params },
      { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'subscriptions/listen' },
    )
    expect(await response.text()).toMatch(/"error":/)
  })
})

describe.each(GENERATIONS)('what is offered to the SDK of %s generation', (generation) => {
  test('all tools, with a description for each field', async () => {
    await using other = await connectMcp(cloud.url, cloud.key, generation)
    const tools = await other.tools()
    expect(tools.map(({ name }) => name).sort()).toEqual(TOOLS.split(/\s+/).sort())
    for (const { name, description, inputSchema } of tools) {
      expect(description, name).toMatch(/\w+ .*\.$/s)
      for (const [field, schema] of Object.entries(inputSchema.properties ?? {})) expect(schema.description, `${name}.${field}`).toMatch(/\w/)
    }
    // A host puts this list into every conversation.
    expect(JSON.stringify(tools).length).toBeLessThan(60_000)
  })

  test('resources of a project', async () => {
    await using other = await connectMcp(cloud.url, cloud.key, generation)
    const { resourceTemplates } = await other.client.listResourceTemplates()
    expect(resourceTemplates.map(({ uriTemplate }) => uriTemplate)).toContain('kernel://orgs/{organization}/projects/{project}/browser-pools/{id}')
    const { session_id } = await cloud.create({ name: `of ${generation}` })
    const of = 'kernel://orgs/defaultorganization00000/projects/Default'
    const read = async (uri: string) => JSON.parse(((await other.client.readResource({ uri })).contents[0] as { text: string }).text) as Record<string, any>
    expect((await read(`${of}/browsers`)).items).toContainEqual(expect.objectContaining({ session_id }))
    expect(await read(`${of}/browsers/${session_id}`)).toMatchObject({ session_id })
    expect(await read(`${of}/browsers/of%20${encodeURIComponent(generation)}`)).toMatchObject({ session_id })
    for (const path of ['browsers/nope', 'keys', 'browsers/%ff', 'browsers/a/b', 'apps/nope']) await expect(read(`${of}/${path}`)).rejects.toThrow()
    await expect(read('kernel://orgs/another/projects/Default/browsers')).rejects.toThrow('there is no resource')
    await expect(read(of.replace('Default', 'Nope') + '/browsers')).rejects.toThrow('[code: project_not_found]')
    await cloud.fetch(`/browsers/${session_id}`, { method: 'DELETE' })
  })

  test('prompts, which need their arguments', async () => {
    await using other = await connectMcp(cloud.url, cloud.key, generation)
    expect((await other.client.listPrompts()).prompts.map(({ name }) => name)).toEqual(['kernel-concepts', 'debug-browser-session'])
    const { messages } = await other.client.getPrompt({
      name: 'debug-browser-session',
      arguments: { session_id: 'abc', issue_description: 'a "quoted"\nline' },
    })
    expect((messages[0]!.content as { text: string }).text).toContain(String.raw`"a \"quoted\"\nline"`)
    await expect(other.client.getPrompt({ name: 'debug-browser-session', arguments: { session_id: 'abc' } })).rejects.toThrow('issue_description: is required')
    await expect(other.client.getPrompt({ name: 'kernel-concepts', arguments: { concept: 'toString' } })).rejects.toThrow('must be one of browsers')
  })
})

test('families that are hidden are neither listed nor called, and have no resources', async () => {
  await using hidden = await startFastCloud({ COB_MCP_DISABLED_TOOLSETS: 'manage_browsers, exec-command,computer' })
  await using other = await connectMcp(hidden.url, hidden.key)
  const names = (await other.tools()).map(({ name }) => name)
  expect(names).toHaveLength(MCP_TOOLSETS.length + 1 - 3)
  for (const name of ['manage_browsers', 'exec_command', 'computer_action']) {
    expect(names).not.toContain(name)
    await expect(other.call(name, {})).rejects.toThrow('there is no tool')
  }
  const { resourceTemplates } = await other.client.listResourceTemplates()
  expect(resourceTemplates.map(({ name }) => name)).not.toContain('browsers')
})

describe('tools have the rights of their caller', () => {
  test('a key of another project sees nothing of this one, and is told so as by the API', async () => {
    const project = await made('/org/projects', { name: 'Ünder 日本' })
    const { key } = await made('/org/api_keys', { name: 'theirs', project_id: project.id })
    const { session_id } = await cloud.create({ name: 'ours' })
    await using theirs = await connectMcp(cloud.url, key)
    expect(await theirs.json('manage_browsers', { action: 'list' })).toEqual({ items: [], has_more: false, next_offset: null, note: expect.any(String) })
    expect(await theirs.refused('manage_browsers', { action: 'get', session_id })).toMatch(
      /^Error in manage_browsers \(get\): there is no browser .* \[code: not_found\]$/,
    )
    expect(await theirs.refused('exec_command', { session_id, command: 'true' })).toMatch(/\[code: not_found\]$/)
    expect(await theirs.refused('manage_browsers', { action: 'list', project: 'Default' })).toMatch(/\[code: forbidden\]$/)
    expect(await theirs.refused('manage_projects', { action: 'create', name: 'mine' })).toMatch(/\[code: forbidden\]$/)
    expect(await theirs.json('get_connection_context', {})).toMatchObject({
      connection_scope: { kind: 'project', project_id: project.id, source: 'credential' },
    })
    // With a key of all projects, a call names a project by id or name; the connection may name one for all its tools.
    const { browser } = await client.json('manage_browsers', { action: 'create', project: project.name })
    expect((await theirs.json('manage_browsers', { action: 'list' })).items).toHaveLength(1)
    expect((await client.json('manage_browsers', { action: 'list', project_id: project.id })).items).toMatchObject([{ session_id: browser.session_id }])
    await using pinned = await connectMcp(cloud.url, cloud.key, 'this', { 'x-kernel-project-id': project.id })
    expect((await pinned.json('manage_browsers', { action: 'list' })).items).toHaveLength(1)
    expect(await pinned.refused('manage_browsers', { action: 'list', project: 'Default' })).toMatch(/names another project .*\[code: bad_request\]$/)
    expect(await pinned.json('get_connection_context', {})).toMatchObject({
      connection_scope: { kind: 'project', project_id: project.id, source: 'server_pin' },
    })
    await theirs.call('manage_browsers', { action: 'delete', session_id: browser.session_id })
    await cloud.fetch(`/browsers/${session_id}`, { method: 'DELETE' })
  })

  test('a person with the role viewer may look, and is told what is refused', async () => {
    const { cookie } = await signedIn(cloud, { [DEFAULT_PROJECT]: 'viewer' })
    const { session_id } = await cloud.create({ name: 'looked at' })
    await using viewer = await connectMcp(cloud.url, '', 'this', { ...OURS, cookie })
    const { items } = await viewer.json('manage_browsers', { action: 'list', query: session_id })
    expect(items).toMatchObject([{ session_id, name: 'looked at' }])
    for (const [name, given] of [
      ['manage_browsers', { action: 'create' }],
      ['manage_browsers', { action: 'delete', session_id }],
      ['exec_command', { session_id, command: 'true' }],
      ['computer_action', { session_id, actions: [{ type: 'sleep', sleep: { duration_ms: 1 } }] }],
      ['manage_api_keys', { action: 'list' }],
    ] as const)
      expect(await viewer.refused(name, given)).toMatch(/\[code: forbidden\]$/)
    // The cookie alone is no credential: a page of another origin could make the browser send it.
    await expect(connectMcp(cloud.url, '', 'this', { cookie })).rejects.toThrow()
    await cloud.fetch(`/browsers/${session_id}`, { method: 'DELETE' })
  })

  test('a call is in the audit log as by REST: who, which route, from where', async () => {
    const { id, key } = await made('/org/api_keys', { name: 'audited' })
    await using other = await connectMcp(cloud.url, key, 'this', { 'user-agent': 'host/7' })
    const { browser } = await other.json('manage_browsers', { action: 'create' })
    await other.call('manage_browsers', { action: 'delete', session_id: browser.session_id })
    const start = new Date(Date.now() - 600_000).toISOString()
    const end = new Date(Date.now() + 60_000).toISOString()
    const rows = async () =>
      ((await (await cloud.fetch(`/audit-logs?start=${start}&end=${end}&limit=100`)).json()) as Record<string, unknown>[]).filter(
        ({ user_id }) => user_id === id,
      )
    await expect
      .poll(async () => (await rows()).map(({ method, path, status, client_ip, user_agent }) => ({ method, path, status, client_ip, user_agent })))
      .toEqual(
        expect.arrayContaining([
          { method: 'POST', path: '/browsers', status: 200, client_ip: '127.0.0.1', user_agent: 'host/7' },
          { method: 'DELETE', path: `/browsers/${browser.session_id}`, status: 204, client_ip: '127.0.0.1', user_agent: 'host/7' },
        ]),
      )
  })

  test('a call ends with its key', async () => {
    const { id, key } = await made('/org/api_keys', { name: 'short' })
    await using other = await connectMcp(cloud.url, key)
    await client.json('manage_browser_pools', { action: 'create', size: 1, name: 'empty' })
    await client.json('manage_browser_pools', { action: 'acquire', id_or_name: 'empty' })
    const waits = other.call('manage_browser_pools', { action: 'acquire', id_or_name: 'empty', acquire_timeout_seconds: 50 })
    await cloud.fetch(`/org/api_keys/${id}`, { method: 'DELETE' })
    expect(await within('the call to end', REVOKED_MS, waits)).toMatchObject({
      isError: true,
      content: [{ text: expect.stringMatching(/\[code: unauthorized\]$/) }],
    })
    await expect.poll(() => other.call('manage_browsers', { action: 'list' }).catch(String)).toMatch(/401|invalid|unauthorized/i)
    await client.call('manage_browser_pools', { action: 'delete', id_or_name: 'empty', force: true })
  })

  test('the requests of a key are counted as everywhere', async () => {
    await using limited = await startFastCloud({ COB_RATE_LIMIT_PER_MINUTE: '12' })
    await using other = await connectMcp(limited.url, limited.key)
    const seen = new Set<string>()
    for (let i = 0; i < 12; i++) {
      const said = await other.call('manage_browsers', { action: 'list' }).catch((error: Error) => ({ isError: true, content: [{ text: error.message }] }))
      if (said.isError) seen.add(said.content[0]!.text!)
    }
    expect([...seen].join()).toMatch(/may make 12 requests within a minute/)
  })
})

describe('input', () => {
  const refused = (given: object) => client.refused('manage_browsers', given)

  test('what is missing, unknown, wrong or of another action is named', async () => {
    expect(await refused({ action: 'fly' })).toMatch(/^Error in manage_browsers: action: .* \[code: bad_request\]$/)
    expect(await refused({})).toContain('action: ')
    expect(await refused({ action: 'get' })).toBe('Error in manage_browsers (get): session_id: is required for get [code: bad_request]')
    expect(await refused({ action: 'list', headless: true })).toContain('headless: is not for list, only for create')
    expect(await refused({ action: 'list', colour: 'red' })).toContain('colour: there is no such property')
    expect(await refused({ action: 'list', limit: 0 })).toContain('limit: ')
    expect(await refused({ action: 'create', timeout_seconds: 5 })).toContain('timeout_seconds: ')
    expect(await refused({ action: 'create', viewport_width: 800 })).toContain('viewport_height: expected number')
    expect(await refused({ action: 'create', profile_name: 'a', profile_id: 'b' })).toContain('profile_name: cannot be given together with id')
    expect(await refused({ action: 'create', save_profile_changes: true })).toContain('save_profile_changes: needs the id or the name of a profile')
    expect(await refused({ action: 'create', gpu: true })).toContain('not built yet')
    expect(await refused({ action: 'list', project: 'a', project_id: 'b' })).toContain('project_id: is deprecated')
    expect(await refused({ action: 'list', project: 'a\nb' })).toContain('project: must have no control characters')
    expect(await refused({ action: 'get', session_id: '../../access/projects' })).toMatch(/\[code: not_found\]$/)
  })

  test('null counts as not given, as hosts send it for fields that they do not set', async () => {
    const { browser } = await client.json('manage_browsers', { action: 'create', session_id: null, profile_name: null, tags: null, headless: true })
    expect(browser).toMatchObject({ headless: true })
    await client.call('manage_browsers', { action: 'delete', session_id: browser.session_id, project: null })
  })
})
