// Deployments as their callers see them, over fake sandboxes.
import { DEFAULT_PROJECT } from '../../access/projects/resolve.ts'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { createHash } from 'node:crypto'
import { connect } from 'node:net'
import { describe, expect, test } from 'vitest'
import { deploy, deployed, deployForm, fakeApps, getDeployment, hasCode as codeIsThere, reaches, zipOf, type Deployed } from '../../../../test/support/apps.ts'
import { conforms } from '../../../../test/support/contract.ts'
import { fastCloud } from '../../../../test/support/fast-cloud.ts'
import { newId } from '../../../base/ids.ts'
import { until } from '../../../base/wait.ts'

const cloud = fastCloud({ COB_WARM_BROWSERS: '0' })

const NOTICE_MS = 5_000

async function insert(columns: Record<string, unknown>): Promise<string> {
  const id = newId()
  const row: Record<string, unknown> = { id, project_id: DEFAULT_PROJECT, region: 'aws.us-east-1a', ...columns }
  const names = Object.keys(row)
  await cloud.query(`insert into deployments (${names.join()}) values (${names.map((_, index) => `$${index + 1}`).join()})`, Object.values(row))
  return id
}
async function get(path: string): Promise<{ status: number; headers: Headers; body: Record<string, unknown> }> {
  const response = await cloud.fetch(path)
  return { status: response.status, headers: response.headers, body: (await response.json()) as Record<string, unknown> }
}
const list = async (query: string): Promise<Deployed[]> => (await (await cloud.fetch(`/deployments?${query}`)).json()) as Deployed[]
const remove = async (id: string): Promise<number> => (await cloud.fetch(`/deployments/${id}`, { method: 'DELETE' })).status
const hasCode = (id: string): boolean => codeIsThere(cloud.paths, id)
const archives = (): string[] => (existsSync(join(cloud.paths.objects, 'archives')) ? readdirSync(join(cloud.paths.objects, 'archives')) : [])
const isBuilding = async (id: string): Promise<boolean> => {
  const [row] = await cloud.query<{ sandbox_id: string | null }>('select sandbox_id from deployments where id = $1', [id])
  return readdirSync(cloud.paths.appSandboxes).includes(row?.sandbox_id ?? id)
}
const hasKey = async (id: string): Promise<boolean> =>
  (await cloud.query('select from api_keys where deployment_id = $1 and deleted_at is null', [id])).length > 0
async function post(parts: Record<string, string | Blob>): Promise<{ status: number; body: { message: string } }> {
  const form = new FormData()
  for (const [name, value] of Object.entries(parts)) form.set(name, value)
  const response = await cloud.fetch('/deployments', { method: 'POST', body: form })
  return { status: response.status, body: (await response.json()) as { message: string } }
}
const archive = async (): Promise<Blob> => new Blob([new Uint8Array(await zipOf())])

describe('a deployment record', () => {
  test('contains the known fields of the contract, and omits unknown ones', async () => {
    const created = new Date('2026-01-02T03:04:05.678Z')
    const known = {
      status_reason: 'it broke',
      entrypoint_rel_path: 'src/index.ts',
      source_type: 'github',
      source_url: 'https://github.com/a/b',
      source_ref: 'main',
      source_path: 'apps/x',
      source_checksum: 'ab'.repeat(32),
    }
    const row = { ...known, app_name: 'app', app_version: '1', archive: 'archives/x', secrets: Buffer.from('x'), created_at: created, updated_at: created }
    const full = await get(`/deployments/${await insert({ state: 'failed', ...row })}`)
    conforms('DeploymentRetrieveResponse', full.body)
    const { id: _, ...rest } = full.body
    const times = { created_at: created.toISOString(), updated_at: created.toISOString() }
    expect(rest).toEqual({ ...known, ...times, region: 'aws.us-east-1a', status: 'failed', env_vars: {} })
    const bare = await get(`/deployments/${await insert({ state: 'queued' })}`)
    expect(Object.keys(bare.body).toSorted()).toEqual(['created_at', 'env_vars', 'id', 'region', 'status', 'updated_at'])
  })

  test.each([newId(), 'nothing', ' ', 'a/b', '🌽', '..x', 'x'.repeat(1000)])(
    'for the unknown id %j answers 404, also to its events and its deletion',
    async (id) => {
      const path = `/deployments/${encodeURIComponent(id)}`
      for (const response of [await cloud.fetch(path), await cloud.fetch(`${path}/events`), await cloud.fetch(path, { method: 'DELETE' })]) {
        const body = (await response.json()) as { code: string }
        conforms('ErrorModel', body)
        expect([response.status, body.code]).toEqual([404, 'not_found'])
      }
    },
  )
})

describe('a deployment', () => {
  test('is queued immediately, is built, and runs', async () => {
    const zip = await zipOf({ 'src/app.ts': 'export {}' })
    const form = await deployForm({ entrypoint: 'src/app.ts', env: { GREETING: 'hello', EMPTY: '' } })
    form.set('file', new Blob([new Uint8Array(zip)]), 'x.zip')
    const response = await cloud.fetch('/deployments', { method: 'POST', body: form })
    const made = (await response.json()) as Deployed
    conforms('DeploymentCreateResponse', made)
    expect(response.status).toBe(201)
    expect(made).toMatchObject({
      status: 'queued',
      region: 'aws.us-east-1a',
      entrypoint_rel_path: 'src/app.ts',
      source_type: 'file',
      source_checksum: createHash('sha256').update(zip).digest('hex'),
      env_vars: { GREETING: '', EMPTY: '' },
    })
    const done = await reaches(cloud, made.id, 'running')
    expect(done).not.toHaveProperty('status_reason')
    expect([hasCode(made.id), await hasKey(made.id), archives().includes(made.id)]).toEqual([true, true, true])
    await until('its sandbox to go', NOTICE_MS, async () => !(await isBuilding(made.id)))
  })

  test('that fails gives the reason, and leaves no code, key, archive or secrets', async () => {
    const { id } = await deploy(cloud, { env: { FAKE_FAIL: 'cannot find module "x"' } })
    expect(await reaches(cloud, id, 'failed')).toMatchObject({ status_reason: 'cannot find module "x"' })
    await until(
      'the rest of it to go',
      NOTICE_MS,
      async () => (await cloud.query('select from deployments where id = $1 and secrets is null', [id])).length > 0,
    )
    expect([hasCode(id), await hasKey(id), archives().includes(id), await isBuilding(id)]).toEqual([false, false, false, false])
  })

  test('whose code contains no app fails with the reason', async () => {
    const of = async (env: Record<string, string>) => (await reaches(cloud, (await deploy(cloud, { env })).id, 'failed')).status_reason
    expect(await of(fakeApps({}))).toBe('the code makes no app')
    expect(await of(fakeApps({ idle: [] }))).toBe('app "idle" has no actions')
    expect(await of(fakeApps({ '\0': ['x'] }))).toMatch(/^the name "\\u0000" cannot be used/)
    expect(await of(fakeApps({ long: ['x'.repeat(256)] }))).toMatch(/^the name "x+" cannot be used/)
  })

  test('accepts its variables as one JSON part, and its parts in any order', async () => {
    const parts = { file: await archive(), version: 'json', env_vars: JSON.stringify({ A: '1', B: '2' }), entrypoint_rel_path: 'index.ts', region: 'aws.us-east-1a', force: 'false' } // prettier-ignore
    for (const order of [Object.entries(parts), Object.entries(parts).toReversed()]) {
      const { status, body } = await post({ ...Object.fromEntries(order), version: newId() })
      expect([status, (body as unknown as Deployed).env_vars]).toEqual([201, { A: '', B: '' }])
    }
  })

  test('accepts its variables with the names that Go sends, and an empty text as "not set"', async () => {
    const parts = {
      file: await archive(),
      'env_vars.A': '1',
      'env_vars.B': '',
      entrypoint_rel_path: 'index.ts',
      region: '',
      version: newId(),
      force: '',
      source: '',
    }
    const { status, body } = await post(parts)
    expect([status, (body as unknown as Deployed).env_vars]).toEqual([201, { A: '', B: '' }])
    expect((await post({ ...parts, version: '' })).status).toBe(201)
  })

  test('is built after those before it: twenty in a row are built in order, and one of them stays running', async () => {
    const env = fakeApps({ twenty: ['go'] })
    const ids: string[] = []
    for (let round = 0; round < 20; round++) ids.push((await deploy(cloud, { env })).id)
    await reaches(cloud, ids.at(-1)!, 'running')
    for (const id of ids.slice(0, -1)) await reaches(cloud, id, 'stopped')
    const rows = await cloud.query<{ deployment_id: string }>(
      "select deployment_id from app_events where state = 'running' and deployment_id = any($1) order by id",
      [ids],
    )
    expect(rows.map(({ deployment_id }) => deployment_id)).toEqual(ids)
    const kept = () => archives().filter((id) => ids.includes(id))
    await until('what the nineteen had to go', NOTICE_MS, () => ids.every((id) => hasCode(id) === (id === ids.at(-1))) && kept().length === 1)
    expect(kept()).toEqual(ids.slice(-1))
    expect(((await get('/apps?app_name=twenty')).body as unknown as unknown[]).length).toBe(1)
  })
})

const FILE_LINE: [string, Record<string, string>, RegExp][] = [
  ['no entrypoint', { entrypoint_rel_path: '-' }, /^entrypoint_rel_path: must not begin/],
  ['an empty entrypoint', { entrypoint_rel_path: '' }, /^entrypoint_rel_path: is required with file$/],
  ['an absolute entrypoint', { entrypoint_rel_path: '/etc/passwd' }, /^entrypoint_rel_path: must be a relative path/],
  ['an entrypoint that leads upwards', { entrypoint_rel_path: 'a/../../b.ts' }, /^entrypoint_rel_path: must not lead upwards/],
  ['an entrypoint with backslashes', { entrypoint_rel_path: 'a\\b.ts' }, /^entrypoint_rel_path: must be a relative path/],
  ['a folder for an entrypoint', { entrypoint_rel_path: 'src/' }, /^entrypoint_rel_path: must name a file$/],
  ['another region', { region: 'eu-west-1' }, /^region: must be aws.us-east-1a$/],
  ['a force that is no boolean', { force: 'yes' }, /^force: must be true or false$/],
  ['a version that is too long', { version: 'v'.repeat(256) }, /^version: must have 1 to 255 characters$/],
  ['a part that there is not', { colour: 'red' }, /^colour: there is no such part$/],
  ['a variable with a bad name', { 'env_vars[A-B]': 'x' }, /^env_vars\[A-B\]: must be named/],
  ['a variable with no name', { 'env_vars[]': 'x' }, /^env_vars: must be named/],
  ['a variable with U+0000', { 'env_vars[A]': 'a\0b' }, /^env_vars\[A\]: must not hold U\+0000/],
  ['a variable that is too long', { 'env_vars[A]': 'x'.repeat(65_537) }, /^env_vars\[A\]: is longer than 65536 bytes$/],
  ['variables twice', { 'env_vars[A]': 'x', env_vars: '{"A":"y"}' }, /^env_vars\[A\]: is given twice$/],
  ['variables twice, each in its own way', { 'env_vars[A]': 'x', 'env_vars.A': 'y' }, /^env_vars\[A\]: is given twice$/],
  ['variables that are no JSON object', { env_vars: '["A"]' }, /^env_vars: must be a JSON object/],
  ['a variable that is no text', { env_vars: '{"A":1}' }, /^env_vars\[A\]: must be text$/],
  ['a source as well', { source: '{}' }, /source/],
]
describe('an invalid form is refused, the error names the field, and nothing is left:', () => {
  test.each(FILE_LINE)('%s', async (_, parts, message) => {
    const before = archives().toSorted()
    const { status, body } = await post({ entrypoint_rel_path: 'index.ts', file: await archive(), ...parts })
    conforms('ErrorModel', body)
    expect([status, body.message]).toEqual([400, expect.stringMatching(message)])
    expect(archives().toSorted()).toEqual(before)
  })

  test('neither a file nor a source; the error names every wrong field', async () => {
    const { status, body } = await post({ region: 'mars', force: '2' })
    expect(status).toBe(400)
    for (const field of ['file', 'entrypoint_rel_path', 'region', 'force']) expect(body.message).toContain(`${field}: `)
  })

  test('a file in a text field, text in a file field, an empty file, two files', async () => {
    expect((await post({ file: 'text', entrypoint_rel_path: 'index.ts' })).body.message).toBe('file: must be a file: a part with a filename')
    expect((await post({ file: await archive(), entrypoint_rel_path: 'index.ts', version: await archive() })).body.message).toBe(
      'version: must be text, not a file',
    )
    expect((await post({ file: new Blob([]), entrypoint_rel_path: 'index.ts' })).body.message).toBe('file: is empty')
    const form = await deployForm()
    form.append('file', await archive(), 'b.zip')
    expect(await (await cloud.fetch('/deployments', { method: 'POST', body: form })).json()).toMatchObject({ message: 'file: is given twice' })
  })

  test('a body that is not a form', async () => {
    for (const type of ['application/json', 'multipart/form-data', 'multipart/form-data; boundary=x']) {
      const response = await cloud.fetch('/deployments', { method: 'POST', headers: { 'content-type': type }, body: '{}' })
      expect(response.status).toBe(400)
    }
  })

  test('too many variables', async () => {
    const env_vars = JSON.stringify(Object.fromEntries(Array.from({ length: 501 }, (_, at) => [`V${at}`, ''])))
    expect((await post({ file: await archive(), entrypoint_rel_path: 'index.ts', env_vars })).body.message).toMatch(/^env_vars\[V500\]: is one more/)
  })
})

test('a caller that leaves during an upload leaves nothing behind', async () => {
  const before = archives().toSorted()
  const { count } = (await cloud.query<{ count: string }>('select count(*) from deployments'))[0]!
  const { hostname, port } = new URL(cloud.url)
  const socket = connect(Number(port), hostname)
  const head = '--b\r\ncontent-disposition: form-data; name="file"; filename="a.zip"\r\ncontent-type: application/zip\r\n\r\n'
  socket.write(
    `POST /deployments HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${cloud.key}\r\ncontent-type: multipart/form-data; boundary=b\r\ncontent-length: 1000000\r\n\r\n${head}`,
  )
  socket.write(Buffer.alloc(100_000))
  const uploads = () => readdirSync(cloud.paths.objects, { recursive: true }).filter((name) => /^\.new./.test(String(name))).length
  await until('the upload to be under way', NOTICE_MS, () => uploads() > 0)
  socket.destroy()
  await until('the upload to be gone', NOTICE_MS, () => uploads() === 0)
  expect(archives().toSorted()).toEqual(before)
  expect((await cloud.query<{ count: string }>('select count(*) from deployments'))[0]!.count).toBe(count)
})

describe('a deployment of an existing version', () => {
  const env = fakeApps({ clash: ['go'] })

  test('without force fails and names the conflict', async () => {
    const first = await deployed(cloud, { env, version: '1' })
    const second = await reaches(cloud, (await deploy(cloud, { env, version: '1' })).id, 'failed')
    expect(second.status_reason).toBe('app clash version 1 exists already; deploy with force to replace it')
    expect((await getDeployment(cloud, first.id)).status).toBe('running')
    expect(await list('app_name=clash&app_version=1')).toMatchObject([{ id: first.id }])
  })

  test('with force replaces the old deployment, which is stopped: its key is deleted and its code removed', async () => {
    const env2 = fakeApps({ forced: ['go'] })
    const first = await deployed(cloud, { env: env2, version: '1' })
    const second = await deployed(cloud, { env: env2, version: '1', force: true })
    expect((await reaches(cloud, first.id, 'stopped')).status_reason).toBe('a newer deployment has taken its place')
    await until('its code to go', NOTICE_MS, () => !hasCode(first.id))
    expect([await hasKey(first.id), await hasKey(second.id)]).toEqual([false, true])
    expect((await get('/apps?app_name=forced')).body).toMatchObject([{ deployment: second.id, version: '1' }])
  })

  test('named "latest" always replaces the old one; other versions stay', async () => {
    const env3 = fakeApps({ beside: ['go'] })
    const other = await deployed(cloud, { env: env3, version: 'stable' })
    const first = await deployed(cloud, { env: env3 })
    const second = await deployed(cloud, { env: env3, version: 'latest' })
    await reaches(cloud, first.id, 'stopped')
    const rows = (await get('/apps?app_name=beside')).body as unknown as { deployment: string; version: string }[]
    expect(rows.map(({ deployment, version }) => [deployment, version])).toEqual([
      [second.id, 'latest'],
      [other.id, 'stable'],
    ])
  })

  test('replaces one of several apps: the old deployment continues for the others', async () => {
    const both = await deployed(cloud, { env: fakeApps({ left: ['go'], right: ['go'] }) })
    await deployed(cloud, { env: fakeApps({ left: ['go'] }) })
    expect((await getDeployment(cloud, both.id)).status).toBe('running')
    await deployed(cloud, { env: fakeApps({ right: ['go'] }) })
    await reaches(cloud, both.id, 'stopped')
  })
})

describe('deleting a deployment', () => {
  test('that runs ends it: it disappears from the lists immediately, with its app, key, code and archive', async () => {
    const { id } = await deployed(cloud, { env: fakeApps({ deleted: ['go'] }) })
    expect(await remove(id)).toBe(204)
    expect([await list('app_name=deleted'), (await get('/apps?app_name=deleted')).body]).toEqual([[], []])
    expect([(await cloud.fetch(`/deployments/${id}`)).status, (await cloud.fetch(`/deployments/${id}/events`)).status, await remove(id)]).toEqual([
      404, 404, 404,
    ])
    expect([hasCode(id), await hasKey(id), archives().includes(id)]).toEqual([false, false, false])
  })

  test('that failed works', async () => {
    const failed = await reaches(cloud, (await deploy(cloud, { env: { FAKE_FAIL: 'x' } })).id, 'failed')
    expect([await remove(failed.id), (await cloud.fetch(`/deployments/${failed.id}`)).status]).toEqual([204, 404])
  })

  test('whose build hangs ends the build, and the next one in the queue starts', async () => {
    const hanging = await deploy(cloud, { env: { FAKE_HANG: '1' } })
    const waiting = await deploy(cloud, { version: newId() })
    const unwanted = await deploy(cloud, { version: newId() })
    await reaches(cloud, hanging.id, 'in_progress')
    expect([(await getDeployment(cloud, waiting.id)).status, await remove(unwanted.id)]).toEqual(['queued', 204])
    expect(await remove(hanging.id)).toBe(204)
    await reaches(cloud, waiting.id, 'running')
    const rows = await cloud.query('select state, status_reason from deployments where id = any($1)', [[hanging.id, unwanted.id]])
    expect(rows).toEqual(Array(2).fill({ state: 'failed', status_reason: 'it was deleted' }))
    expect([hasCode(hanging.id), hasCode(unwanted.id), await isBuilding(hanging.id)]).toEqual([false, false, false])
  })

  test('of the newest version does not restore an older one', async () => {
    const env = fakeApps({ gone: ['go'] })
    const first = await deployed(cloud, { env })
    const second = await deployed(cloud, { env })
    await remove(second.id)
    await reaches(cloud, first.id, 'stopped')
    expect((await get('/apps?app_name=gone')).body).toEqual([])
  })
})

describe('the list of deployments', () => {
  test('is sorted newest first, paged, and filtered by app, version, part of a name and id', async () => {
    const ids: string[] = []
    for (const version of ['1', '2', '3']) ids.unshift((await deployed(cloud, { env: fakeApps({ 'Listed-One': ['go'], 'listed-two': ['go'] }), version })).id)
    const found = async (query: string) => (await list(query)).map(({ id }) => id)
    conforms('DeploymentListResponse', await list('app_name=Listed-One'), true)
    expect(await found('app_name=Listed-One')).toEqual(ids)
    expect(await found('app_name=listed-two')).toEqual(ids)
    expect(await found('app_name=Listed-One&app_version=2')).toEqual([ids[1]])
    expect(await found('query=LISTED-o')).toEqual(ids)
    expect(await found(`query=${ids[0]}`)).toEqual([ids[0]])
    expect(await found(`query=${ids[0]!.slice(0, 8)}`)).toEqual([])
    expect(await found('app_name=listed')).toEqual([])
    expect(await found('app_name=&app_version=&query=')).toEqual((await list('limit=20')).map(({ id }) => id))
    const first = await get('/deployments?app_name=Listed-One&limit=2')
    expect([first.headers.get('x-has-more'), first.headers.get('x-next-offset')]).toEqual(['true', '2'])
    const second = await get('/deployments?app_name=Listed-One&limit=2&offset=2')
    expect([second.headers.get('x-has-more'), second.headers.get('x-next-offset')]).toEqual(['false', '0'])
    expect([...(first.body as unknown as Deployed[]), ...(second.body as unknown as Deployed[])].map(({ id }) => id)).toEqual(ids)
  })

  test('needs an app if it is filtered by version', async () => {
    const { status, body } = await get('/deployments?app_version=1')
    expect([status, body.message]).toEqual([400, 'app_version: needs app_name'])
  })
})
