// For every operation that names an object, a caller of another project gets the same answer as for an object that does not exist, and the object stays unchanged. The
// cases come from the routes, so a new route is tested without a new test.
import fc from 'fast-check'
import { createHash } from 'node:crypto'
import { beforeAll, describe, expect, test } from 'vitest'
import { newId } from '../src/base/ids.ts'
import { until } from '../src/base/wait.ts'
import { newKey } from '../src/control/access/keys.ts'
import { DEFAULT_PROJECT } from '../src/control/access/projects/resolve.ts'
import { routes } from './support/bad-requests.ts'
import { fastCloud } from './support/fast-cloud.ts'

const seed = Number(process.env.FC_SEED ?? Date.now() % 2 ** 31)
/** The limit for a fake browser to boot on a busy machine. */
const FILL_MS = 20_000
const OTHER = newId()
const KEY = newKey()
const APP_KEY = newKey()
/** These belong to no project. The service refuses the call before it looks for the object. */
const OF_ALL = '/audit-logs/export/destinations/'
/** These belong to no project either, but everybody may read them. */
const SHARED = '/telemetry/destinations/'
/** These also, but only a key of the whole organization may call the paths below one. */
const PROVIDERS = '/org/credential_providers/'

/** Objects of the default project, by the start of the paths that name one. A new group adds its own here. */
let objects: Record<string, Record<string, string>>
const cloud = fastCloud()
beforeAll(async () => {
  const { session_id: browser } = await cloud.create({ name: 'theirs', timeout_seconds: 3600 })
  const { replay_id } = (await (await cloud.send('POST', `/browsers/${browser}/replays`, {})).json()) as { replay_id: string }
  const pool = ((await (await cloud.send('POST', '/browser_pools', { name: 'theirs', size: 1 })).json()) as { id: string }).id
  const isFilled = async () => ((await (await cloud.fetch(`/browser_pools/${pool}`)).json()) as { available_count: number }).available_count === 1
  await until('a full pool', FILL_MS, isFilled, { everyMs: 20 })
  const profile = ((await (await cloud.send('POST', '/profiles', { name: 'theirs' })).json()) as { id: string }).id
  const [deployment, invocation, theirs, extension, version] = [newId(), newId(), newId(), newId(), newId()]
  await cloud.query('insert into projects (id, name) values ($1, $2)', [OTHER, 'Other'])
  for (const [id, project] of [
    [deployment, DEFAULT_PROJECT],
    [theirs, OTHER],
  ])
    await cloud.query(
      `insert into deployments (id, project_id, scope, state, region, env_keys) values ($1, $2, 'elsewhere', 'running', 'aws.us-east-1a', '[]')`,
      [id, project],
    )
  await cloud.query(
    `insert into invocations (id, project_id, state, deployment_id, app_name, version, action_name, is_async, timeout_seconds, caller, request_hash)
     values ($1, $2, 'running', $3, 'app', 'latest', 'go', true, 3600, '', '')`,
    [invocation, DEFAULT_PROJECT, deployment],
  )
  await cloud.query(
    `insert into extensions (id, project_id, scope, name, object, size_bytes, checksum, by_policy) values ($1, $2, 'elsewhere', 'theirs', 'extensions/x', 1, '', false)`,
    [extension, DEFAULT_PROJECT],
  )
  await cloud.query(
    `insert into profile_versions (id, profile_id, scope, object, bytes, sha256, session_id, is_whole) values ($1, $2, 'elsewhere', $3, 1, '', 's', true)`,
    [version, profile, `profiles/${version}`],
  )
  const insertKey = (key: string, of: string | null) =>
    cloud.query('insert into api_keys (id, name, hash, masked, project_id, deployment_id) values ($1, $2, $3, $4, $5, $6)', [
      newId(),
      'other',
      createHash('sha256').update(key).digest(),
      'm',
      OTHER,
      of,
    ])
  const destination = newId()
  await cloud.query(`insert into audit_log_destinations (id, bucket, prefix, region, role_arn, external_id) values ($1, 'logs', '', 'eu-west-1', '', '')`, [
    destination,
  ])
  const collector = newId()
  await cloud.query(`insert into telemetry_destinations (id, name, endpoint, header_names) values ($1, 'ours', 'http://collector.test', '{}')`, [collector])
  const provider = newId()
  await cloud.query(`insert into credential_providers (id, name, provider_type, token, cache_ttl_seconds) values ($1, 'ours', 'file', '', 300)`, [provider])
  await insertKey(KEY, null)
  await insertKey(APP_KEY, theirs!)
  objects = {
    '/browsers/': { id: browser, id_or_name: browser, replay_id },
    '/deployments/': { id: deployment! },
    '/profiles/': { id: profile, id_or_name: profile, version_id: version! },
    '/invocations/': { id: invocation! },
    '/extensions/': { id: extension!, id_or_name: extension! },
    '/org/api_keys/': {
      id: ((await (await cloud.send('POST', '/org/api_keys', { name: 'theirs', project_id: DEFAULT_PROJECT })).json()) as { id: string }).id,
    },
    '/proxies/': await theirProxy(),
    '/credentials/': await theirCredential(),
    '/auth/connections/': await theirConnection(),
    '/browser_pools/': { id: pool, id_or_name: pool },
    [OF_ALL]: { id: destination },
    [SHARED]: { id: collector, id_or_name: collector },
    [PROVIDERS]: { id: provider },
    '/org/members/': await theirMember(),
    '/oauth/grants/': await theirGrant(),
    '/org/projects/': { id: DEFAULT_PROJECT, id_or_name: DEFAULT_PROJECT },
  }
})

async function theirProxy(): Promise<Record<string, string>> {
  const proxy = { type: 'custom', name: 'theirs', config: { host: 'proxy.test', port: 8080 } }
  const { id } = (await (await cloud.send('POST', '/proxies', proxy)).json()) as { id: string }
  return { id, id_or_name: id }
}

async function theirCredential(): Promise<Record<string, string>> {
  const credential = { name: 'theirs', domain: 'site.test', values: { password: 'secret' }, totp_secret: 'JBSWY3DPEHPK3PXP' }
  const { id } = (await (await cloud.send('POST', '/credentials', credential)).json()) as { id: string }
  return { id, id_or_name: id }
}

async function theirConnection(): Promise<Record<string, string>> {
  const { id } = (await (await cloud.send('POST', '/auth/connections', { domain: 'site.test', profile_name: 'theirs' })).json()) as { id: string }
  return { id }
}

async function theirMember(): Promise<Record<string, string>> {
  const { id } = (await (await cloud.send('POST', '/org/members', { email: 'a@team.test', role: 'member', project_id: DEFAULT_PROJECT })).json()) as {
    id: string
  }
  return { id }
}

/** An OAuth grant that was given with the service's key. */
async function theirGrant(): Promise<Record<string, string>> {
  const id = newId()
  const grant = `insert into oauth_grants (id, client_id, key_id, project_id, scope, expires_at) select $1, 'kernel-cli', id, $2, '{}', now() + interval '1 day' from api_keys`
  await cloud.query(`${grant} where project_id is null limit 1`, [id, DEFAULT_PROJECT])
  const token = `insert into oauth_tokens (hash, grant_id, kind, expires_at) values (sha256($1::text::bytea), $1, 'refresh', now() + interval '1 day')`
  await cloud.query(token, [id])
  return { id }
}

/** This call needs no key. It needs a code of the same connection (hand-off.test.ts). */
const EXCHANGE = '/auth/connections/{id}/exchange'
/** These paths name an identity provider of the settings, which is the same for everybody. */
const PUBLIC = '/sign-in/'
const naming = routes.filter(
  ({ method, path }) =>
    path.includes('{') && path !== EXCHANGE && !path.startsWith(PUBLIC) && !(method === 'GET' && (path.startsWith(SHARED) || path === `${PROVIDERS}{id}`)),
)

async function answerTo(method: string, path: string, key: string, body: unknown): Promise<{ status: number; text: string }> {
  const response = await fetch(cloud.url + path, {
    method,
    headers: { authorization: `Bearer ${key}`, ...(body !== undefined && { 'content-type': 'application/json' }) },
    ...(body !== undefined && { body: JSON.stringify(body) }),
    signal: AbortSignal.timeout(10_000),
  })
  return { status: response.status, text: await response.text() }
}

/** The rows of everything in the default project. */
const state = async () =>
  JSON.stringify([
    await cloud.query(`select id, state, name, tags, options, deleted_at from browsers where project_id = $1 order by id`, [DEFAULT_PROJECT]),
    await cloud.query('select id, state, deletion from deployments order by id'),
    await cloud.query('select id, state, finished_at from invocations order by id'),
    await cloud.query('select id from replays order by id'),
    await cloud.query('select * from extensions order by id'),
    await cloud.query('select * from proxies order by id'),
    await cloud.query('select * from auth_connections order by id'),
    await cloud.query('select * from auth_flows order by id'),
    await cloud.query('select * from browser_pools order by id'),
    await cloud.query('select * from credentials order by id'),
    await cloud.query('select * from audit_log_destinations order by id'),
    await cloud.query('select * from telemetry_destinations order by id'),
    await cloud.query('select * from credential_providers order by id'),
    await cloud.query('select id, name, expires_at, deleted_at from api_keys where project_id = $1 order by id', [DEFAULT_PROJECT]),
    await cloud.query('select * from profiles order by id'),
    await cloud.query('select id from profile_versions order by id'),
    await cloud.query('select * from projects order by id'),
    await cloud.query('select * from people order by id'),
    await cloud.query('select * from oauth_grants order by id'),
    await cloud.query('select * from memberships order by person_id, project_id'),
  ])

describe.each([
  ['a key of another project', () => KEY],
  ["another project's app", () => APP_KEY],
])('%s', (_, key) => {
  test.each(naming)('does not reach $method $path', async ({ method, path, body }) => {
    const found = Object.entries(objects).find(([beginning]) => path.startsWith(beginning))?.[1]
    if (!found) throw new Error(`which object does ${path} name? Add one to this test`)
    const filled = (values: Record<string, string>) => path.replaceAll(/\{(\w+)\}/g, (__, name: string) => values[name] ?? '1')
    const unknown = Object.fromEntries(Object.keys(found).map((name) => [name, newId()]))
    const before = await state()
    for (const sample of body ? fc.sample(body, { numRuns: 3, seed }) : [undefined]) {
      const theirs = await answerTo(method, filled(found), key(), sample)
      const nobodys = await answerTo(method, filled(unknown), key(), sample)
      const plain = (text: string, values: Record<string, string>) => Object.values(values).reduce((said, id) => said.replaceAll(id, '…'), text)
      expect([theirs.status, plain(theirs.text, found)]).toEqual([nobodys.status, plain(nobodys.text, unknown)])
      // An app's key manages no keys, members or OAuth grants. A key of one project manages nothing that belongs to the whole organization.
      const isOfAll = [OF_ALL, SHARED, PROVIDERS].some((beginning) => path.startsWith(beginning))
      const refusal = (key() === APP_KEY && /^\/(org\/(api_keys|members)|oauth\/grants)\//.test(path)) || isOfAll ? 403 : 404
      expect([400, refusal]).toContain(theirs.status)
      if (sample === undefined) expect(theirs.status).toBe(refusal)
    }
    expect(await state()).toBe(before)
  })

  test.each([
    '/browsers?status=all',
    '/deployments',
    '/invocations',
    '/extensions',
    '/apps',
    '/profiles',
    '/proxies',
    '/credentials',
    '/auth/connections',
    '/browser_pools',
    '/org/api_keys?status=all',
    '/org/projects',
  ])('finds nothing in %s', async (path) => {
    const { status, text } = await answerTo('GET', path, key(), undefined)
    if (status === 403 && key() === APP_KEY && path.startsWith('/org/api_keys')) return
    expect([
      status,
      (JSON.parse(text) as { id?: string }[]).filter(({ id }) => Object.values(objects).some((known) => Object.values(known).includes(id ?? ''))),
    ]).toEqual([200, []])
  })
})

test('the owner reaches each object, so that the answers above say something', async () => {
  for (const [path, { id }] of Object.entries(objects)) {
    if (path === '/oauth/grants/') {
      expect(await (await cloud.fetch(path.slice(0, -1))).json()).toMatchObject([{ id }])
      continue
    }
    // The extension has no stored archive.
    const rest = path === '/extensions/' ? '/metadata' : ''
    expect([path, (await cloud.fetch(path + id + rest)).status]).toEqual([path, 200])
  }
})
