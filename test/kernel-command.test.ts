// The requests of the official command line `kernel` (commit c64f4b5) for projects, API keys, limits and the identity of a key, and the parts of the answers that it
// needs.
import { expect, test } from 'vitest'
import { fastCloud } from './support/fast-cloud.ts'

const cloud = fastCloud({ COB_WARM_BROWSERS: '0', COB_MAX_BROWSERS: '4' })

interface Caller {
  key?: string
  /** `--project` or KERNEL_PROJECT. The command sends it unchanged, in UTF-8. */
  project?: string
}
interface Answer {
  status: number
  headers: Headers
  body: any
}

/** Sends one request as the command does. */
async function send({ key = cloud.key, project }: Caller, method: string, path: string, body?: object): Promise<Answer> {
  const response = await fetch(cloud.url + path, {
    method,
    headers: {
      accept: 'application/json',
      authorization: `Bearer ${key}`,
      'user-agent': 'Kernel/Go 0.91.0',
      'x-kernel-cli-version': 'dev',
      'x-stainless-lang': 'go',
      'x-stainless-retry-count': '0',
      ...(project !== undefined && { 'x-kernel-project': Buffer.from(project).toString('latin1') }),
      ...(body && { 'content-type': 'application/json' }),
    },
    ...(body && { body: JSON.stringify(body) }),
  })
  const text = await response.text()
  return { status: response.status, headers: response.headers, body: text === '' ? undefined : JSON.parse(text) }
}
const answered = async (...call: Parameters<typeof send>) => {
  const { status, body } = await send(...call)
  return [status, body?.code]
}
const org: Caller = {}
const made = async (path: string, body: object, caller = org) => {
  const answer = await send(caller, 'POST', path, body)
  expect([answer.status, answer.body]).toEqual([201, answer.body])
  return answer.body
}

test('projects list: the two headers that the command refuses to do without', async () => {
  for (const name of ['list one', 'list two', 'list three']) await made('/org/projects', { name })
  const pages = []
  for (const offset of [0, 2, 100]) {
    const { headers, body } = await send(org, 'GET', `/org/projects?limit=2&offset=${offset}&query=list`)
    pages.push([body.length, headers.get('x-has-more'), headers.get('x-next-offset')])
  }
  expect(pages).toEqual([
    [2, 'true', '2'],
    [1, 'false', '0'],
    [0, 'false', '0'],
  ])
  const { body } = await send(org, 'GET', '/org/projects?limit=100&name=LIST+TWO&offset=0')
  expect(body.map(({ name }: { name: string }) => name)).toEqual(['list two'])
})

test('projects create, get, update, limits, delete: by id and by name, with no retry of a conflict', async () => {
  const project = await made('/org/projects', { name: 'Café noir' })
  for (const called of [project.id, 'caf%C3%A9%20noir']) expect((await send(org, 'GET', `/org/projects/${called}`)).body).toEqual(project)
  const taken = await send(org, 'POST', '/org/projects', { name: 'café NOIR' })
  expect([taken.status, taken.body.code, taken.headers.get('x-should-retry')]).toEqual([409, 'conflict', 'false'])
  expect((await send(org, 'PATCH', '/org/projects/Caf%C3%A9%20noir', { name: 'noir', status: 'active' })).body).toMatchObject({ id: project.id, name: 'noir' })

  const limits = (sessions: number | null, invocations: number | null) => ({
    max_concurrent_sessions: sessions,
    max_concurrent_invocations: invocations,
    max_pooled_sessions: null,
  })
  for (const [body, after] of [
    [{}, limits(null, null)],
    [{ max_concurrent_invocations: 2, max_concurrent_sessions: 1 }, limits(1, 2)],
    [{ max_concurrent_invocations: 0 }, limits(1, null)],
  ] as const)
    expect((await send(org, 'PATCH', '/org/projects/noir/limits', body)).body).toEqual(after)
  expect(await answered(org, 'PATCH', '/org/projects/noir/limits', { max_pooled_sessions: 0 })).toEqual([400, 'bad_request'])
  expect((await send(org, 'GET', `/org/projects/${project.id}/limits`)).body).toEqual(limits(1, null))

  const inside = { project: 'noir' }
  const browser = await send(inside, 'POST', '/browsers', { headless: true })
  expect(await answered(inside, 'POST', '/browsers', { headless: true })).toEqual([429, 'too_many_requests'])
  for (const [method, body] of [['DELETE'], ['PATCH', { status: 'archived' }]] as const) {
    const refused = await send(org, method, '/org/projects/noir', body)
    expect([refused.status, refused.body.code, refused.headers.get('x-should-retry')]).toEqual([409, 'project_not_empty', 'false'])
  }
  expect((await send(inside, 'DELETE', `/browsers/${browser.body.session_id}`)).status).toBe(204)
  expect(await answered(org, 'PATCH', '/org/projects/noir', { status: 'archived' })).toEqual([200, undefined])
  expect(await answered(inside, 'GET', '/browsers')).toEqual([404, 'project_not_found'])
  expect(await answered(org, 'DELETE', '/org/projects/noir')).toEqual([204, undefined])
  expect(await answered(org, 'DELETE', '/org/projects/noir')).toEqual([404, 'not_found'])
})

test('--project takes an id or a name, also with letters outside of ASCII', async () => {
  const { id } = await made('/org/projects', { name: 'Élan' })
  for (const project of [id, 'Élan', 'ÉLAN']) {
    expect(await answered({ project }, 'GET', '/browsers?limit=20')).toEqual([200, undefined])
    expect((await send({ project }, 'GET', '/auth/context')).body.authorization).toEqual({
      credential_scope: { project_id: null },
      effective_scope: { project_id: id },
    })
  }
  expect(await answered({ project: 'elan' }, 'GET', '/browsers')).toEqual([404, 'project_not_found'])
})

test('api-keys create, rotate and delete, for all projects and for one; a key of a project manages that one only', async () => {
  const { id: project } = await made('/org/projects', { name: 'team' })
  const wide = await made('/org/api_keys', { name: 'wide', days_to_expire: 30 }, { project: 'team' })
  expect([wide.project_id, wide.project_name]).toEqual([null, null])
  const { id, key } = await made('/org/api_keys', { name: 'team', project_id: project })
  const team: Caller = { key }
  expect((await send(team, 'GET', '/auth/context')).body).toMatchObject({
    authentication: { credential_id: id },
    authorization: { credential_scope: { project_id: project }, effective_scope: { project_id: project } },
  })
  expect((await send(team, 'GET', '/org/api_keys')).body.map((one: { id: string }) => one.id)).toEqual([id])
  for (const [method, path, body, expected] of [
    ['GET', '/org/limits', undefined, [403, 'forbidden']],
    ['POST', '/org/projects', { name: 'mine' }, [403, 'forbidden']],
    ['PATCH', '/org/projects/team', { status: 'archived' }, [403, 'forbidden']],
    ['PATCH', '/org/projects/team', { name: 'team' }, [200, undefined]],
    ['GET', '/org/projects/Default', undefined, [404, 'not_found']],
    ['POST', '/org/api_keys', { name: 'wide' }, [403, 'forbidden']],
    ['POST', '/org/api_keys', { name: 'mate', project_id: project }, [201, undefined]],
    ['DELETE', `/org/api_keys/${wide.id}`, undefined, [404, 'not_found']],
    ['DELETE', `/org/api_keys/${id}`, undefined, [400, 'cannot_delete_current_key']],
  ] as const)
    expect([method, path, await answered(team, method, path, body)]).toEqual([method, path, expected])
  expect(await answered({ key, project: 'Default' }, 'GET', '/browsers')).toEqual([403, 'forbidden'])

  const next = await made(`/org/api_keys/${id}/rotate`, {}, team)
  expect([next.name, next.project_id]).toEqual(['team', project])
  expect(await answered(org, 'DELETE', `/org/api_keys/${id}`)).toEqual([204, undefined])
  expect(await answered(org, 'GET', `/org/api_keys/${id}`)).toEqual([404, 'not_found'])
  expect((await send(org, 'GET', `/org/api_keys/${id}?include_deleted=true`)).body.deleted_at).not.toBeNull()
  const deleted = await send(org, 'GET', '/org/api_keys?query=team&sort_by=expires_at&sort_direction=desc&status=deleted')
  expect(deleted.body.map((one: { id: string }) => one.id)).toEqual([id])
})

test('org limits: 0 removes the default, null is shown as unlimited', async () => {
  const change = (most: number) => send(org, 'PATCH', '/org/limits', { default_project_max_concurrent_sessions: most })
  expect((await change(3)).body).toMatchObject({ max_concurrent_sessions: 4, default_project_max_concurrent_sessions: 3 })
  expect((await change(5)).status).toBe(400)
  expect((await change(0)).body.default_project_max_concurrent_sessions).toBeNull()
  // The command's table has no row for an absent field.
  expect((await send(org, 'GET', '/org/limits')).body).toMatchObject({
    max_auth_connections: null,
    auth_connections_used: 0,
    min_health_check_interval_seconds: expect.any(Number),
  })
})
