// Every action of every tool, over the real routes with fake browsers: each action calls its route, with its fields in the right places.
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { newId } from '../../../base/ids.ts'
import { startFastCloud, type FastCloud } from '../../../../test/support/fast-cloud.ts'
import { connectMcp, type McpClient } from '../../../../test/support/mcp.ts'

const NEVER = newId()
const DONE = /^The .* (is|are) .*\.$/

let cloud: FastCloud
let client: McpClient
let json: McpClient['json']
let refused: McpClient['refused']
beforeAll(async () => {
  cloud = await startFastCloud()
  client = await connectMcp(cloud.url, cloud.key)
  ;({ json, refused } = client)
})
afterAll(async () => {
  await client[Symbol.asyncDispose]()
  await cloud[Symbol.asyncDispose]()
})

/** Calls a tool that answers with a text. */
async function said(name: string, given: object): Promise<string> {
  const { isError, content } = await client.call(name, given)
  if (isError) throw new Error(content[0]!.text)
  return content[0]!.text!
}

test('manage_browsers: create, update, list, get, get_telemetry, delete', async () => {
  const of = (action: string, more: object = {}) => json('manage_browsers', { action, ...more })
  const proxy = await json('manage_proxies', { action: 'create', type: 'custom', custom_host: 'proxy.example', custom_port: 8080 })
  await cloud.send('POST', '/profiles', { name: 'home' })
  const { browser, next_actions } = await of('create', {
    name: 'one',
    tags: { team: 'a' },
    stealth: true,
    timeout_seconds: 900,
    kiosk_mode: true,
    start_url: 'https://example.com/',
    region: 'us-east',
    chrome_policy: { HomepageLocation: 'https://example.com' },
    profile_name: 'home',
    save_profile_changes: true,
    proxy_id: proxy.id,
    network: { allowed_hosts: ['example.com', 'example.org'] },
    viewport_width: 1024,
    viewport_height: 768,
    viewport_refresh_rate: 30,
    telemetry_enabled: true,
    telemetry_network: true,
  })
  const shown = {
    name: 'one',
    tags: { team: 'a' },
    stealth: true,
    timeout_seconds: 900,
    kiosk_mode: true,
    start_url: 'https://example.com/',
    profile: { name: 'home' },
    proxy_id: proxy.id,
    viewport: { width: 1024, height: 768, refresh_rate: 30 },
    telemetry: { browser: { network: { enabled: true }, console: { enabled: false }, system: { enabled: true } } },
  }
  expect(browser).toMatchObject(shown)
  expect(await refused('manage_browsers', { action: 'create', profile_name: 'nobody' })).toContain('(create): profile_name: there is no profile')
  expect(next_actions.join()).toContain(browser.session_id)
  const session_id = browser.session_id as string
  expect(await of('get', { session_id })).toMatchObject({ ...shown, cdp_ws_url: expect.stringContaining('jwt=') })
  const changed = await of('update', {
    session_id: 'one',
    name: '',
    tags: {},
    clear_proxy: true,
    telemetry_enabled: false,
    viewport_width: 800,
    viewport_height: 600,
  })
  expect(changed.browser).toMatchObject({ session_id, tags: {}, telemetry: null, viewport: { width: 800, height: 600 } })
  expect(changed.browser).not.toHaveProperty('proxy_id')
  expect(changed.browser).not.toHaveProperty('name')
  expect(await refused('manage_browsers', { action: 'update', session_id, clear_proxy: true, proxy_id: proxy.id })).toContain('clear_proxy: cannot be given')
  const limited = { allowed_hosts: ['example.com'] }
  expect((await of('update', { session_id, tags: { team: 'b', of: 'x' }, proxy: { id: proxy.id }, network: limited })).browser).toMatchObject({
    proxy_id: proxy.id,
    network: limited,
  })
  expect(await refused('manage_browsers', { action: 'update', session_id, clear_proxy: true, proxy: { id: proxy.id } })).toContain('clear_proxy: cannot')
  expect((await of('update', { session_id, proxy: { mode: 'direct' }, start_url: 'https://example.com/b' })).browser).not.toHaveProperty('proxy_id')
  expect((await of('list', { tags: { team: 'b', of: 'x' } })).items).toMatchObject([{ session_id }])
  expect((await of('list', { tags: { team: 'a' } })).items).toEqual([])
  const listed = await of('list', { status: 'active', query: session_id, limit: 1, offset: 0 })
  expect(listed).toMatchObject({ items: [{ session_id }], has_more: false, next_offset: null })
  expect(listed.items[0]).not.toHaveProperty('cdp_ws_url')
  const read = await of('get_telemetry', { session_id, categories: ['network'], order: 'desc', until: '1s', limit: 3, compact: false })
  expect(read).toMatchObject({ items: [], has_more: false })
  for (const [more, field] of [
    [{ since: '1m', order: 'desc' }, 'since'],
    [{ compact: false, categories: ['network'] }, 'limit'],
    [{ compact: false, limit: 6, categories: ['network'] }, 'limit'],
    [{ compact: false, limit: 5 }, 'categories'],
  ] as const)
    expect(await refused('manage_browsers', { action: 'get_telemetry', session_id, ...more })).toContain(`: ${field}: `)
  expect(await said('manage_browsers', { action: 'delete', session_id })).toMatch(DONE)
  expect((await of('get', { session_id })).deleted_at).toMatch(/Z$/)
  expect((await of('list', { status: 'deleted', limit: 1 })).has_more).toBe(false)
  await said('manage_proxies', { action: 'delete', proxy_id: proxy.id })
})

test('fields are shown as their routes take them: limits, defaults, choices, and flat names for what is nested there', async () => {
  const tools = await client.tools()
  const field = (tool: string, name: string) => tools.find((one) => one.name === tool)!.inputSchema.properties![name]
  expect(field('manage_browsers', 'viewport_width')).toMatchObject({ type: 'integer', minimum: 100, maximum: 7680 })
  expect(field('manage_browsers', 'timeout_seconds')).toEqual({
    type: 'integer',
    minimum: 10,
    maximum: 259_200,
    description: '(create) The session ends after so many seconds without use. Default 60.',
  })
  expect(field('manage_proxies', 'type')).toMatchObject({ type: 'string', enum: ['custom', 'datacenter', 'isp', 'residential', 'mobile'] })
  // Hosts do not support unions of objects, and tuples.
  expect(JSON.stringify(field('computer_action', 'actions'))).not.toMatch(/oneOf|anyOf|prefixItems/)
  expect(tools.find(({ name }) => name === 'exec_command')!.inputSchema.required).toEqual(['session_id', 'command'])
})

test('lists go on where next_offset says', async () => {
  for (const name of ['a', 'b', 'c']) await json('manage_projects', { action: 'create', name: `page ${name}` })
  const first = await json('manage_projects', { action: 'list', query: 'page ', limit: 2 })
  expect([first.items.length, first.has_more, first.next_offset]).toEqual([2, true, 2])
  const second = await json('manage_projects', { action: 'list', query: 'page ', limit: 2, offset: first.next_offset })
  expect([second.items.length, second.has_more, second.next_offset]).toEqual([1, false, null])
})

test('manage_profiles: setup, list, get, rename, delete', async () => {
  const text = await said('manage_profiles', { action: 'setup', profile_name: 'person' })
  const [, id] = /profile_id: (\w+)/.exec(text)!
  const [, session_id] = /session_id: (\w+)/.exec(text)!
  expect(text).toContain('/browser/live/')
  expect(await json('manage_browsers', { action: 'get', session_id })).toMatchObject({ stealth: true, profile: { id } })
  expect(await refused('manage_profiles', { action: 'setup', profile_name: 'person' })).toContain(
    `update_existing: must be true: a profile with this name exists (${id})`,
  )
  expect(await refused('manage_profiles', { action: 'setup', profile_name: 'nobody', update_existing: true })).toContain('profile_name: is no profile')
  expect((await json('manage_profiles', { action: 'list', query: 'pers', limit: 5 })).items).toMatchObject([{ id, name: 'person' }])
  expect(await json('manage_profiles', { action: 'get', profile_id: id })).toMatchObject({ name: 'person' })
  expect(await json('manage_profiles', { action: 'rename', profile_name: 'person', new_name: 'somebody' })).toMatchObject({ id, name: 'somebody' })
  expect(await refused('manage_profiles', { action: 'get' })).toContain('profile_name: is required for get, or profile_id')
  await said('manage_browsers', { action: 'delete', session_id })
  expect(await said('manage_profiles', { action: 'delete', profile_name: 'somebody' })).toMatch(DONE)
})

test('manage_browser_pools: create, update, list, get, acquire, release, flush, delete', async () => {
  const of = (action: string, more: object = {}) => json('manage_browser_pools', { action, ...more })
  await cloud.send('POST', '/profiles', { name: 'of-pools' })
  const { browser_pool: pool } = await of('create', {
    size: 1,
    name: 'ready',
    profile_name: 'of-pools',
    viewport_width: 800,
    viewport_height: 600,
    fill_rate_per_minute: 6000,
  })
  expect(pool.browser_pool_config).toMatchObject({ size: 1, profile: { name: 'of-pools' }, viewport: { width: 800, height: 600 } })
  const changed = await of('update', {
    id_or_name: 'ready',
    clear_profile: true,
    clear_extensions: true,
    timeout_seconds: 60,
    chrome_policy: {},
    discard_all_idle: true,
  })
  expect(changed.browser_pool.browser_pool_config).toMatchObject({ timeout_seconds: 60 })
  expect(changed.browser_pool.browser_pool_config).not.toHaveProperty('profile')
  expect(await refused('manage_browser_pools', { action: 'update', id_or_name: 'ready', clear_profile: true, profile_id: 'x' })).toContain(
    'clear_profile: cannot',
  )
  expect((await of('list')).items).toContainEqual(expect.objectContaining({ id: pool.id }))
  const { browser } = await of('acquire', { id_or_name: pool.id, acquire_timeout_seconds: 20, name: 'mine' })
  expect(browser).toMatchObject({ name: 'mine', pool: { id: pool.id } })
  expect(await refused('manage_browser_pools', { action: 'acquire', id_or_name: pool.id, acquire_timeout_seconds: 0 })).toMatch(
    /became free .* \[code: unavailable\]$/,
  )
  expect(await refused('manage_browser_pools', { action: 'delete', id_or_name: pool.id })).toMatch(/\[code: conflict\]$/)
  expect(await said('manage_browser_pools', { action: 'release', id_or_name: pool.id, session_id: browser.session_id, reuse: false })).toMatch(DONE)
  expect(await said('manage_browser_pools', { action: 'flush', id_or_name: pool.id })).toMatch(DONE)
  expect(await of('get', { id_or_name: 'ready' })).toMatchObject({ id: pool.id })
  expect(await said('manage_browser_pools', { action: 'delete', id_or_name: pool.id, force: true })).toMatch(DONE)
})

test('manage_proxies: create, list, get, rename, check, delete', async () => {
  const given = {
    type: 'custom',
    name: 'p',
    custom_protocol: 'http',
    custom_host: 'proxy.example',
    custom_port: 9,
    custom_username: 'user',
    custom_password: 'secret',
  }
  const proxy = await json('manage_proxies', { action: 'create', ...given })
  expect(proxy).toMatchObject({ type: 'custom', name: 'p', protocol: 'http', config: { host: 'proxy.example', port: 9, username: 'user' } })
  expect(JSON.stringify(proxy)).not.toContain('secret')
  expect(await refused('manage_proxies', { action: 'create', ...given, country: 'US' })).toContain('country: there is no such property')
  expect(await refused('manage_proxies', { action: 'create', type: 'custom', custom_port: 1 })).toContain('custom_host: expected string')
  expect(await refused('manage_proxies', { action: 'create', type: 'custom', custom_host: '127.0.0.1', custom_port: 1 })).toContain(
    ': custom_host: is an address',
  )
  expect(await refused('manage_proxies', { action: 'create', type: 'isp', custom_host: 'x' })).toContain('custom_host: there is no such property')
  expect(await refused('manage_proxies', { action: 'create', type: 'residential', country: 'US', city: 'sanfrancisco' })).toMatch(/COB_PROXY_RESIDENTIAL/)
  expect((await json('manage_proxies', { action: 'list' })).items).toMatchObject([{ id: proxy.id }])
  expect(await json('manage_proxies', { action: 'rename', proxy_id: proxy.id, name: 'q' })).toMatchObject({ name: 'q' })
  expect(await json('manage_proxies', { action: 'get', proxy_id: 'q' })).toMatchObject({ id: proxy.id })
  expect(await refused('manage_proxies', { action: 'check', proxy_id: proxy.id, check_url: 'ftp://example.com' })).toMatch(
    /: check_url: .*\[code: bad_request\]$/,
  )
  expect(await said('manage_proxies', { action: 'delete', proxy_id: proxy.id })).toMatch(DONE)
})

test('manage_extensions and manage_apps: what there is not', async () => {
  expect((await json('manage_extensions', { action: 'list', limit: 3 })).items).toEqual([])
  expect(await refused('manage_extensions', { action: 'delete', id_or_name: NEVER })).toMatch(/\[code: not_found\]$/)
  expect((await json('manage_apps', { action: 'list_apps', app_name: 'a', version: '1', query: 'a' })).items).toEqual([])
  expect((await json('manage_apps', { action: 'list_deployments', app_name: 'a', version: '1' })).items).toEqual([])
  expect(await refused('manage_apps', { action: 'list_deployments', version: '1' })).toContain('version: needs app_name')
  for (const [action, more] of [
    ['invoke', { app_name: 'a', action_name: 'b', payload: '{}' }],
    ['get_deployment', { deployment_id: NEVER }],
    ['delete_deployment', { deployment_id: NEVER }],
    ['get_invocation', { invocation_id: NEVER }],
    ['list_invocation_browsers', { invocation_id: NEVER }],
  ] as const)
    expect(await refused('manage_apps', { action, ...more })).toMatch(/\[code: not_found\]$/)
})

test('manage_credentials: create, list, get, totp_code, update, delete; no value is ever answered', async () => {
  const values = { username: 'person', password: 'a secret value' }
  const made = await json('manage_credentials', { action: 'create', name: 'c', domain: 'example.com', values, totp_secret: 'JBSWY3DPEHPK3PXP' })
  expect(made).toMatchObject({ name: 'c', has_totp_secret: true })
  expect((await json('manage_credentials', { action: 'list', domain: 'example.com' })).items).toMatchObject([{ id: made.id }])
  expect((await json('manage_credentials', { action: 'totp_code', id_or_name: 'c' })).code).toMatch(/^\d{6}$/)
  const changed = await json('manage_credentials', {
    action: 'update',
    id_or_name: 'c',
    name: 'd',
    values: { other: 'x' },
    totp_secret: '',
    sso_provider: 'google',
  })
  expect(changed).toMatchObject({ name: 'd', has_totp_secret: false, sso_provider: 'google' })
  expect(JSON.stringify([made, changed, await json('manage_credentials', { action: 'get', id_or_name: made.id })])).not.toContain('a secret value')
  expect(await said('manage_credentials', { action: 'delete', id_or_name: 'd' })).toMatch(DONE)
})

test('manage_credential_providers: create, list, get, update, test, list_items, delete', async () => {
  const of = (action: string, more: object = {}) => json('manage_credential_providers', { action, ...more })
  const folder = join(cloud.paths.root, 'credential-files')
  mkdirSync(folder, { recursive: true })
  const item = { title: 'Site', urls: ['https://site.example.com'], values: { username: 'kim', password: 'a secret value' } }
  writeFileSync(join(folder, 'items.json'), JSON.stringify({ items: [item] }), { mode: 0o600 })
  const { id } = await of('create', { name: 'store', provider_type: 'file', token: '{"file":"items.json"}', cache_ttl_seconds: 0 })
  expect((await of('list')).items).toMatchObject([{ id, provider_type: 'file' }])
  expect(await of('update', { id, name: 'other', enabled: true, priority: 3 })).toMatchObject({ name: 'other', enabled: true, priority: 3 })
  expect(await of('get', { id })).toMatchObject({ name: 'other' })
  expect(await of('test', { id })).toMatchObject({ success: true })
  const { items } = await of('list_items', { id })
  expect(items).toMatchObject([{ title: 'Site' }])
  expect(JSON.stringify(items)).not.toContain('a secret value')
  expect(await said('manage_credential_providers', { action: 'delete', id })).toMatch(DONE)
})

test('manage_projects: create, get, update, get_limits, update_limits, delete', async () => {
  const of = (action: string, more: object = {}) => json('manage_projects', { action, ...more })
  const { id } = await of('create', { name: 'Tools' })
  expect(await of('update', { project: 'Tools', name: 'Renamed' })).toMatchObject({ id, name: 'Renamed' })
  expect(await of('update_limits', { project: id, max_concurrent_sessions: 3 })).toMatchObject({ max_concurrent_sessions: 3 })
  expect(await of('get_limits', { project_id: id })).toMatchObject({ max_concurrent_sessions: 3, max_concurrent_invocations: null })
  expect(await refused('manage_projects', { action: 'update_limits', project: id, max_pooled_sessions: 1 })).toContain('max_pooled_sessions: cannot be set')
  expect(await of('update', { project: id, status: 'archived' })).toMatchObject({ status: 'archived' })
  expect(await of('get', { project: id })).toMatchObject({ status: 'archived' })
  expect(await refused('manage_projects', { action: 'get' })).toContain('project: is required')
  expect(await said('manage_projects', { action: 'delete', project: id })).toMatch(DONE)
})

test('manage_api_keys: create, list, get, update, delete; the key itself is answered once', async () => {
  const made = await json('manage_api_keys', { action: 'create', name: 'k', days_to_expire: 2 })
  expect(made).toMatchObject({ name: 'k', key: expect.stringMatching(/^cob_/), project_id: null })
  const { items } = await json('manage_api_keys', { action: 'list', limit: 100 })
  expect(items.map(({ id }: { id: string }) => id)).toContain(made.id)
  expect(JSON.stringify(items)).not.toContain(made.key)
  expect(await json('manage_api_keys', { action: 'update', api_key_id: made.id, name: 'l' })).toMatchObject({ name: 'l' })
  expect(await json('manage_api_keys', { action: 'get', api_key_id: made.id })).toMatchObject({ name: 'l' })
  expect(await said('manage_api_keys', { action: 'delete', api_key_id: made.id })).toMatch(DONE)
})

test('manage_auth_connections: create, update, list, get, timeline, login, wait, submit, delete', async () => {
  const of = (action: string, more: object = {}) => json('manage_auth_connections', { action, ...more })
  const name = 'manage_auth_connections'
  const made = await of('create', { domain: 'example.com', profile_name: 'person-of-logins', save_credentials: false, health_check_interval: 600 })
  expect(made).toMatchObject({ domain: 'example.com', save_credentials: false, health_check_interval: 600, status: 'NEEDS_AUTH' })
  const { id } = made
  expect(await refused(name, { action: 'create', domain: 'x.com', profile_name: 'p', credential_path: 'v/i' })).toMatch(
    /: credential_name: must be given, .*\[code: bad_request\]$/,
  )
  expect((await of('list', { domain_filter: 'example.com', profile_name: 'person-of-logins' })).items).toMatchObject([{ id }])
  expect(await of('get', { id })).toMatchObject({ id })
  expect(await of('update', { id, save_credentials: true, auto_reauth: false, health_checks: false, login_url: 'https://example.com/in' })).toMatchObject({
    save_credentials: true,
    auto_reauth: false,
    health_checks: false,
    login_url: 'https://example.com/in',
    health_check_interval: 600,
  })
  expect(await refused(name, { action: 'update', id, credential_provider: 'x' })).toMatch(/: credential_path: must be given .*\[code: bad_request\]$/)
  expect(await of('timeline', { id, type: 'login' })).toEqual({ items: [], has_more: false, next_offset: null })
  expect(await refused(name, { action: 'wait', domain_filter: 'example.com' })).toContain('id: is required for wait')
  const began = performance.now()
  const pending = await client.call(name, { action: 'wait', domain_filter: 'example.com', profile_name: 'person-of-logins', wait_seconds: 2 })
  expect(pending.structuredContent).toMatchObject({
    state: 'pending',
    connection: { id, status: 'NEEDS_AUTH' },
    instruction: expect.stringContaining('Call wait'),
  })
  expect(performance.now() - began).toBeLessThan(10_000)
  // Texts of the site are not part of it.
  expect(Object.keys((pending.structuredContent as { connection: object }).connection)).not.toEqual(
    expect.arrayContaining(['website_error', 'error_message', 'hosted_url']),
  )
  await cloud.query(`update auth_connections set status = 'AUTHENTICATED' where id = $1`, [id])
  expect((await client.call(name, { action: 'wait', id })).structuredContent).toMatchObject({
    state: 'authenticated',
    connection: { profile_name: 'person-of-logins' },
  })
  expect(await refused(name, { action: 'wait', id: NEVER })).toMatch(/\[code: not_found\]$/)
  expect(await refused(name, { action: 'submit', id, fields: {} })).toMatch(/\[code: bad_request\]$/)
  // Each kind of answer reaches the API, which replies that nothing is asked now, or that two kinds are too many.
  const ways = { field_values: { a: 'b' }, selected_choice_id: 'c', sign_in_option_id: 's', fields: { a: 'b' }, mfa_option_id: 'm', sso_provider: 'google' }
  for (const [way, value] of Object.entries(ways))
    expect(await refused(name, { action: 'submit', id, [way]: value, interaction_id: 'i' })).toMatch(/\[code: (conflict|not_found)\]$/)
  expect(await refused(name, { action: 'submit', id, selected_choice_id: 'c', fields: { a: 'b' } })).toContain('cannot be given together')
  expect(await said(name, { action: 'delete', id })).toMatch(DONE)
})

test('search_docs finds the page of a subject', async () => {
  expect(await said('search_docs', { query: 'how do I keep browsers ready in a pool' })).toContain('/docs/pools')
  expect(await said('search_docs', { query: 'COB_MAX_BROWSERS' })).toContain('/docs/settings')
  expect(await said('search_docs', { query: 'xyzzyplugh' })).toMatch(/^Nothing/)
})
