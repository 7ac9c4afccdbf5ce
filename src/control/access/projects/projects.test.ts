// Projects: created, found, renamed, archived and deleted, and which callers may do that.
import { createHash } from 'node:crypto'
import pg from 'pg'
import { describe, expect, test } from 'vitest'
import { conforms } from '../../../../test/support/contract.ts'
import { fastCloud, startFastCloud, type Session } from '../../../../test/support/fast-cloud.ts'
import { newId } from '../../../base/ids.ts'
import { newKey } from '../keys.ts'
import { DEFAULT_PROJECT } from './resolve.ts'

const cloud = fastCloud()

interface Project {
  id: string
  name: string
  status: string
  created_at: string
  updated_at: string
}

const ask = (method: string, path: string, body?: object, headers: Record<string, string> = {}) =>
  cloud.fetch(path, {
    method,
    headers: { ...headers, ...(body && { 'content-type': 'application/json' }) },
    ...(body && { body: JSON.stringify(body) }),
  })
const refusal = async (response: Response) => {
  const body = await response.json()
  conforms('ErrorModel', body)
  return [response.status, (body as { code: string }).code, response.headers.get('x-should-retry')]
}
let count = 0
async function make(name = `project ${++count}`): Promise<Project> {
  const response = await ask('POST', '/org/projects', { name })
  const body = await response.json()
  expect(response.status).toBe(201)
  conforms('Project', body)
  return body as Project
}
const within = (project: Project, method: string, path: string, body?: object) => ask(method, path, body, { 'x-kernel-project': project.id })
/** A key of a project, as `authorization`. */
async function keyOf(project: string): Promise<Record<string, string>> {
  const key = newKey()
  await cloud.query('insert into api_keys (id, name, hash, masked, project_id) values ($1, $2, $3, $4, $5)', [
    newId(),
    'test',
    createHash('sha256').update(key).digest(),
    key.slice(0, 8),
    project,
  ])
  return { authorization: `Bearer ${key}` }
}

test('a project is found by its id and, without case, by its name; it can be used at once', async () => {
  const made = await make('Élan of two')
  for (const called of [made.id, 'Élan of two', 'ÉLAN OF TWO', 'élan OF two']) {
    const response = await ask('GET', `/org/projects/${encodeURIComponent(called)}`)
    expect([called, await response.json()]).toEqual([called, made])
    // Some clients send Latin-1 in headers, others UTF-8.
    for (const header of [called, Buffer.from(called).toString('latin1')])
      expect([called, await (await ask('GET', '/browsers', undefined, { 'x-kernel-project': header })).json()]).toEqual([called, []])
  }
  expect(await refusal(await ask('GET', `/org/projects/${newId()}`))).toEqual([404, 'not_found', null])
  expect(await refusal(await ask('GET', '/org/projects/nonesuch'))).toEqual([404, 'not_found', null])
})

test('names are unique without case, have 1 to 255 characters, and do not look like ids', async () => {
  const made = await make('Unique')
  expect(await refusal(await ask('POST', '/org/projects', { name: 'uniQUE' }))).toEqual([409, 'conflict', 'false'])
  for (const [name, equal] of [
    ['Équipe', 'éQUIPE'],
    ['Привет', 'ПРИВЕТ'],
    ['Ώρα', 'ώρα'],
  ] as const) {
    await make(name)
    expect([equal, ...(await refusal(await ask('POST', '/org/projects', { name: equal })))]).toEqual([equal, 409, 'conflict', 'false'])
  }
  const other = await make()
  expect(await refusal(await ask('PATCH', `/org/projects/${other.id}`, { name: 'UNIQUE' }))).toEqual([409, 'conflict', 'false'])
  expect((await ask('PATCH', `/org/projects/${made.id}`, { name: 'UNIQUE' })).status).toBe(200)
  // 255 characters of two UTF-16 units each.
  expect((await make('😀'.repeat(255))).name).toHaveLength(510)
  for (const name of ['', ' ', ' a', '.', '..', 'a/b', 'a%b', 'a\nb', 'x'.repeat(256), newId(), newId().toUpperCase(), 7, null])
    expect([name, (await ask('POST', '/org/projects', { name })).status]).toEqual([name, 400])
  expect((await ask('POST', '/org/projects', { name: 'more', status: 'active' })).status).toBe(400)
})

test('two creates of one name at once make one project', async () => {
  const answers = await Promise.all(Array.from({ length: 8 }, () => ask('POST', '/org/projects', { name: 'at once' })))
  expect(answers.map(({ status }) => status).toSorted()).toEqual([201, 409, 409, 409, 409, 409, 409, 409])
})

test('the list has pages, a filter for whole names and one for parts', async () => {
  const names = ['Page one', 'Page two', 'Page thrée']
  for (const name of names) await make(name)
  const list = async (query: string) => {
    const response = await ask('GET', `/org/projects?${query}`)
    const body = (await response.json()) as Project[]
    conforms('Project', body, true)
    return [body.map(({ name }) => name), response.headers.get('x-has-more'), response.headers.get('x-next-offset')]
  }
  const [{ id: second }] = (await (await ask('GET', '/org/projects?name=Page%20two')).json()) as [{ id: string }]
  expect(await list(`query=${second}`)).toEqual([['Page two'], 'false', '0'])
  expect(await list('query=PAGE')).toEqual([names.toReversed(), 'false', '0'])
  expect(await list('query=page&limit=2')).toEqual([['Page thrée', 'Page two'], 'true', '2'])
  expect(await list('query=page&limit=2&offset=2')).toEqual([['Page one'], 'false', '0'])
  expect(await list('name=page%20THREE')).toEqual([['Page thrée'], 'false', '0'])
  expect(await list('name=page')).toEqual([[], 'false', '0'])
})

test('a renamed project answers to its new name at once, and no longer to the old one', async () => {
  const made = await make('before')
  const named = async (name: string) => (await ask('GET', '/browsers', undefined, { 'x-kernel-project': name })).status
  expect(await named('before')).toBe(200)
  const renamed = (await (await ask('PATCH', '/org/projects/before', { name: 'after' })).json()) as Project
  expect(renamed).toMatchObject({ id: made.id, name: 'after', status: 'active', created_at: made.created_at })
  expect(renamed.updated_at > made.updated_at).toBe(true)
  expect([await named('before'), await named('after'), await named(made.id)]).toEqual([404, 200, 200])
  // Without a change in the body, nothing changes.
  expect(await (await ask('PATCH', '/org/projects/after')).json()).toEqual(renamed)
})

test('an archived project cannot be used until it is active again; one in which something runs cannot be archived', async () => {
  const made = await make()
  const session = (await (await within(made, 'POST', '/browsers', {})).json()) as Session
  const refused = await ask('PATCH', `/org/projects/${made.id}`, { status: 'archived' })
  expect(await refusal(refused.clone())).toEqual([409, 'project_not_empty', 'false'])
  expect(((await refused.json()) as { message: string }).message).toBe('the project cannot be archived: it has 1 live browsers')
  expect((await within(made, 'DELETE', `/browsers/${session.session_id}`)).status).toBe(204)
  const archived = (await (await ask('PATCH', `/org/projects/${made.id}`, { status: 'archived' })).json()) as Project
  conforms('Project', archived)
  expect(archived.status).toBe('archived')
  expect(await refusal(await within(made, 'POST', '/browsers', {}))).toEqual([404, 'project_not_found', null])
  expect((await ask('PATCH', `/org/projects/${made.id}`, { status: 'active' })).status).toBe(200)
  expect((await within(made, 'GET', '/browsers')).status).toBe(200)
})

describe('deleting a project', () => {
  test('is refused while it has a live browser, and works after that has ended; its keys work no more, and its name is free', async () => {
    const made = await make('to delete')
    const key = await keyOf(made.id)
    expect((await ask('GET', '/browsers', undefined, key)).status).toBe(200)
    const { session_id: id } = (await (await within(made, 'POST', '/browsers', {})).json()) as Session
    const refused = await ask('DELETE', `/org/projects/${made.id}`)
    expect(await refusal(refused.clone())).toEqual([409, 'project_not_empty', 'false'])
    expect(((await refused.json()) as { message: string }).message).toContain('1 live browsers')
    await within(made, 'DELETE', `/browsers/${id}`)
    expect((await ask('DELETE', '/org/projects/to%20delete')).status).toBe(204)
    expect(await refusal(await ask('GET', `/org/projects/${made.id}`))).toEqual([404, 'not_found', null])
    expect(await refusal(await within(made, 'GET', '/browsers'))).toEqual([404, 'project_not_found', null])
    // It never becomes a key for all projects: first its project is not found, later the key is unknown.
    expect([404, 401]).toContain((await ask('GET', '/browsers', undefined, key)).status)
    await expect.poll(async () => (await ask('GET', '/browsers', undefined, key)).status, { timeout: 10_000 }).toBe(401)
    // Its ended sessions are visible from no other project.
    expect((await ask('GET', `/browsers/${id}?include_deleted=true`)).status).toBe(404)
    expect((await ask('DELETE', `/org/projects/${made.id}`)).status).toBe(404)
    await make('to delete')
  })

  test('is refused while it has deployments or unfinished invocations', async () => {
    const made = await make()
    const deployment = newId()
    await cloud.query(
      `insert into deployments (id, scope, state, region, env_keys, project_id) values ($1, 'elsewhere', 'stopped', 'aws.us-east-1a', '[]', $2)`,
      [deployment, made.id],
    )
    expect(await refusal(await ask('DELETE', `/org/projects/${made.id}`))).toEqual([409, 'project_not_empty', 'false'])
    await cloud.query(`update deployments set deletion = 'deleting' where id = $1`, [deployment])
    await cloud.query(
      `insert into invocations (id, project_id, state, deployment_id, app_name, version, action_name, is_async, timeout_seconds, caller, request_hash)
       values ($1, $2, 'running', $3, 'a', '1', 'b', true, 60, 'c', '')`,
      [newId(), made.id, deployment],
    )
    expect(await refusal(await ask('DELETE', `/org/projects/${made.id}`))).toEqual([409, 'project_not_empty', 'false'])
    await cloud.query(`update invocations set finished_at = now(), state = 'failed' where deployment_id = $1`, [deployment])
    expect((await ask('DELETE', `/org/projects/${made.id}`)).status).toBe(204)
  })

  /** Inserts ended sessions and runs into a project directly. */
  async function ended(project: string, most: number): Promise<void> {
    await cloud.query(
      `insert into browsers (id, scope, state, project_id, created_at, deleted_at) select $1 || n, 'elsewhere', 'deleted', $1, now(), now() from generate_series(1, $2::int) n`,
      [project, most],
    )
    const deployment = newId()
    await cloud.query(
      `insert into deployments (id, scope, state, region, env_keys, project_id, deletion) values ($1, 'elsewhere', 'stopped', 'r', '[]', $2, 'deleted')`,
      [deployment, project],
    )
    await cloud.query(
      `insert into invocations (id, project_id, state, deployment_id, app_name, version, action_name, is_async, timeout_seconds, caller, request_hash, finished_at)
       select $1 || n, $1, 'failed', $3, 'a', '1', 'b', true, 60, 'c', '', now() from generate_series(1, $2::int) n`,
      [project, most, deployment],
    )
  }
  const left = async (project: string) =>
    (
      await cloud.query<{ browsers: number; runs: number }>(
        `select (select count(*)::int from browsers where project_id = $1) as browsers, (select count(*)::int from invocations where project_id = $1) as runs`,
        [project],
      )
    )[0]!

  test('with thousands of ended sessions and runs first takes these out of it, in batches, and only then locks it', async () => {
    const made = await make()
    await ended(made.id, 4_500)
    const holder = new pg.Client({ host: cloud.paths.postgresSocket, user: 'cob', database: 'postgres' })
    await holder.connect()
    try {
      // A transaction that inserts an object into the project: when the deletion locks the project, it waits for this transaction.
      await holder.query('begin')
      await holder.query('select from projects where id = $1 for key share', [made.id])
      const deletion = ask('DELETE', `/org/projects/${made.id}`)
      await expect.poll(() => left(made.id), { timeout: 10_000 }).toEqual({ browsers: 1_000, runs: 1_000 })
      await holder.query('commit')
      expect((await deletion).status).toBe(204)
    } finally {
      await holder.end()
    }
    expect(await left(made.id)).toEqual({ browsers: 0, runs: 0 })
    expect(await cloud.query('select from browsers where id like $1 and project_id is null', [`${made.id}%`])).toHaveLength(4_500)
  })

  test('that is refused changes nothing', async () => {
    const made = await make()
    await ended(made.id, 3_000)
    const { session_id: id } = (await (await within(made, 'POST', '/browsers', {})).json()) as Session
    expect((await ask('DELETE', `/org/projects/${made.id}`)).status).toBe(409)
    expect(await left(made.id)).toEqual({ browsers: 3_001, runs: 3_000 })
    await within(made, 'DELETE', `/browsers/${id}`)
    expect((await ask('DELETE', `/org/projects/${made.id}`)).status).toBe(204)
  })

  test('twice at once deletes it once', async () => {
    const made = await make()
    await ended(made.id, 3_000)
    const answers = await Promise.all([1, 2, 3].map(() => ask('DELETE', `/org/projects/${made.id}`)))
    expect(answers.map(({ status }) => status).toSorted()).toEqual([204, 404, 404])
    expect(await left(made.id)).toEqual({ browsers: 0, runs: 0 })
  })

  test.each(['browsers', 'deployments', 'app_versions', 'invocations', 'api_keys'])('finds what it has in %s by an index', async (table) => {
    const client = new pg.Client({ host: cloud.paths.postgresSocket, user: 'cob', database: 'postgres' })
    await client.connect()
    try {
      await client.query('set enable_seqscan = off')
      // The query that Postgres runs for a foreign key.
      const { rows } = await client.query<Record<string, string>>(`explain (costs off) select from ${table} where project_id = 'x'`)
      expect(rows.map((row) => Object.values(row)[0]).join('\n')).toMatch(/Index (Only )?Scan/)
    } finally {
      await client.end()
    }
  })

  test('while sessions are made in it: it is refused, or no session is left in it', async () => {
    for (let round = 0; round < 12; round++) {
      const made = await make()
      const outcomes = new Set<number>()
      let isOver = false
      const maker = async () => {
        while (!isOver) {
          const response = await within(made, 'POST', '/browsers', {})
          outcomes.add(response.status)
          if (response.status !== 200) return
          const { session_id: id } = (await response.json()) as Session
          expect([204, 404]).toContain((await within(made, 'DELETE', `/browsers/${id}`)).status)
        }
      }
      const makers = [maker(), maker()]
      const seen = new Set<number>()
      for (let attempt = 0; attempt < 300 && !seen.has(204); attempt++) seen.add((await ask('DELETE', `/org/projects/${made.id}`)).status)
      isOver = true
      await Promise.all(makers)
      expect([...seen].filter((status) => status !== 204 && status !== 409)).toEqual([])
      // No answer is 500: objects that were created meanwhile are refused because the project does not exist.
      expect([...outcomes].filter((status) => status !== 200 && status !== 404)).toEqual([])
      expect(await cloud.query('select id from browsers where project_id = $1 and deleted_at is null', [made.id])).toEqual([])
      expect(await cloud.query(`select id from browsers where project_id is null and created_at is not null and deleted_at is null`)).toEqual([])
    }
    expect(cloud.errors).toEqual([])
  })
})

test('a session or deployment in a project that was just deleted elsewhere is refused with 404', async () => {
  for (const [path, body] of [
    ['/browsers', {}],
    ['/browsers', { viewport: { width: 6000, height: 4000, refresh_rate: 10 } }],
    ['/deployments', undefined],
  ] as const) {
    const made = await make()
    // The existence of a project is cached for two seconds.
    expect((await within(made, 'GET', '/browsers')).status).toBe(200)
    await cloud.query('delete from projects where id = $1', [made.id])
    const form = new FormData()
    form.set('file', new Blob(['PK']), 'a.zip')
    form.set('entrypoint_rel_path', 'a.ts')
    const response = body
      ? await within(made, 'POST', path, body)
      : await cloud.fetch(path, { method: 'POST', body: form, headers: { 'x-kernel-project': made.id } })
    expect([path, ...(await refusal(response))]).toEqual([path, 404, 'project_not_found', null])
  }
})

test('the default project stays: it is neither archived nor deleted, but may be renamed', async () => {
  for (const [method, body] of [
    ['PATCH', { status: 'archived' }],
    ['DELETE', undefined],
  ] as const)
    expect([method, ...(await refusal(await ask(method, `/org/projects/${DEFAULT_PROJECT}`, body)))]).toEqual([method, 409, 'conflict', 'false'])
  await using alone = await startFastCloud({ COB_WARM_BROWSERS: '0' })
  for (const [method, body] of [
    ['PATCH', { status: 'archived' }],
    ['DELETE', {}],
  ] as const)
    expect([method, ...(await refusal(await alone.send(method, '/org/projects/default', body)))]).toEqual([method, 409, 'last_active_project', 'false'])
  expect((await alone.send('PATCH', '/org/projects/default', { name: 'Main', status: 'active' })).status).toBe(200)
  expect((await alone.fetch('/browsers')).status).toBe(200)
})

describe('a key of a project', () => {
  // Limits on its own project: test/project-resolution.test.ts.
  test('reads and renames its own project; others are not there', async () => {
    const [own, other] = [await make('own'), await make('of others')]
    const key = await keyOf(own.id)
    expect(((await (await ask('GET', '/org/projects', undefined, key)).json()) as Project[]).map(({ id }) => id)).toEqual([own.id])
    expect((await ask('GET', '/org/projects/own', undefined, key)).status).toBe(200)
    expect((await ask('GET', '/org/projects/own/limits', undefined, key)).status).toBe(200)
    expect((await ask('PATCH', '/org/projects/own', { name: 'renamed' }, key)).status).toBe(200)
    for (const [method, path, body] of [
      ['GET', '', undefined],
      ['PATCH', '', { name: 'taken over' }],
      ['PATCH', '', { status: 'archived' }],
      ['DELETE', '', undefined],
      ['GET', '/limits', undefined],
      ['PATCH', '/limits', { max_concurrent_sessions: 1 }],
    ] as const)
      for (const called of [other.id, 'of others', 'default'])
        expect([method, path, called, ...(await refusal(await ask(method, `/org/projects/${called}${path}`, body, key)))]).toEqual([
          method,
          path,
          called,
          404,
          'not_found',
          null,
        ])
  })
})
