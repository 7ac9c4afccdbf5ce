// Nobody sees anything of another project. Which project is effective for whom: test/project-resolution.test.ts.
import { beforeAll, describe, expect, test } from 'vitest'
import { deployed, fakeApps, type Service } from '../../../../test/support/apps.ts'
import { conforms } from '../../../../test/support/contract.ts'
import { fastCloud, type Session } from '../../../../test/support/fast-cloud.ts'
import { newId } from '../../../base/ids.ts'
import { DEFAULT_PROJECT } from './resolve.ts'

let session: Session
const OTHER = { id: newId(), name: 'Team of two' }
const ARCHIVED = { id: newId(), name: 'Past' }
const cloud = fastCloud()
beforeAll(async () => {
  session = await cloud.create({ name: 'mine' })
  await cloud.query('insert into projects (id, name) values ($1, $2)', [OTHER.id, OTHER.name])
  await cloud.query(`insert into projects (id, name, status) values ($1, $2, 'archived')`, [ARCHIVED.id, ARCHIVED.name])
})

const HEADERS = ['X-Kernel-Project', 'X-Kernel-Project-Id']
const ask = (method: string, path: string, headers: Record<string, string>, body?: object) =>
  cloud.fetch(path.replace('{id}', session.session_id), {
    method,
    headers: { ...headers, ...(body && { 'content-type': 'application/json' }) },
    ...(body && { body: JSON.stringify(body) }),
  })

describe.each(HEADERS)('%s', (header) => {
  test.each([
    ['GET', '/browsers'],
    ['POST', '/browsers'],
    ['GET', '/browsers/{id}'],
    ['POST', '/browsers/{id}/computer/screenshot'],
    ['GET', '/browsers/{id}/replays'],
    ['GET', '/deployments'],
    ['GET', '/apps'],
    ['POST', '/invocations'],
    ['GET', '/metrics'],
  ])('with an unknown or archived project answers 404 to %s %s, and nothing happens', async (method, path) => {
    const count = async () => (await cloud.query('select id from browsers where created_at is not null')).length
    const before = await count()
    for (const named of ['nonesuch', ARCHIVED.id, ARCHIVED.name]) {
      const response = await ask(method, path, { [header]: named })
      const body = await response.json()
      conforms('ErrorModel', body)
      expect([response.status, body]).toEqual([404, expect.objectContaining({ code: 'project_not_found', message: expect.stringContaining(`"${named}"`) })])
    }
    expect(await count()).toBe(before)
  })

  test('is checked after the key, also if a token is used, and not by public routes', async () => {
    expect((await fetch(`${cloud.url}/browsers`, { headers: { [header]: 'nonesuch' } })).status).toBe(401)
    const jwt = new URL(session.cdp_ws_url).searchParams.get('jwt')
    const withToken = async (project: string) =>
      (await fetch(`${session.base_url}/computer/screenshot?jwt=${jwt}`, { method: 'POST', headers: { [header]: project } })).status
    expect([await withToken('nonesuch'), await withToken(OTHER.id), await withToken(DEFAULT_PROJECT)]).toEqual([404, 403, 200])
    expect((await fetch(`${cloud.url}/health`, { headers: { [header]: 'nonesuch' } })).status).toBe(200)
  })

  test('shows what is in its project, and no other', async () => {
    const theirs = (await (await ask('POST', '/browsers', { [header]: OTHER.name }, { name: 'mine' })).json()) as Session
    expect(theirs.session_id).not.toBe(session.session_id)
    const listed = async (headers: Record<string, string>) =>
      ((await (await ask('GET', '/browsers', headers)).json()) as Session[]).map(({ session_id }) => session_id)
    expect([await listed({ [header]: OTHER.id }), await listed({})]).toEqual([[theirs.session_id], [session.session_id]])
    for (const [method, path] of [
      ['GET', '/browsers/{id}'],
      ['DELETE', '/browsers/{id}'],
      ['POST', '/browsers/{id}/computer/screenshot'],
      ['GET', '/browsers/{id}/replays'],
    ] as const)
      expect([path, (await ask(method, path, { [header]: OTHER.id })).status]).toEqual([path, 404])
    // The same name means another session in each project.
    expect(((await (await ask('GET', '/browsers/mine', { [header]: OTHER.id })).json()) as Session).session_id).toBe(theirs.session_id)
    expect(((await (await ask('GET', '/browsers/mine', {})).json()) as Session).session_id).toBe(session.session_id)
    // The token of a session opens it by its name, although a session of another project has the same name.
    for (const one of [theirs, session]) {
      const jwt = new URL(one.cdp_ws_url).searchParams.get('jwt')
      const path = `${new URL(one.base_url).pathname.replace(one.session_id, 'MINE')}/computer/screenshot?jwt=${jwt}`
      expect((await fetch(cloud.url + path, { method: 'POST' })).status).toBe(200)
    }
    expect((await ask('DELETE', '/browsers/mine', { [header]: OTHER.id })).status).toBe(204)
    expect((await ask('GET', '/browsers/{id}', {})).status).toBe(200)
  })
})

test('a key of a project sees no object of another one', async () => {
  await cloud.query('update api_keys set project_id = $1', [OTHER.id])
  try {
    await expect.poll(async () => ((await (await cloud.fetch('/browsers')).json()) as Session[]).length).toBe(0)
    expect((await cloud.fetch(`/browsers/${session.session_id}`)).status).toBe(404)
  } finally {
    await cloud.query('update api_keys set project_id = null')
    await expect.poll(async () => ((await (await cloud.fetch('/browsers')).json()) as Session[]).length).toBe(1)
  }
})

test("a token opens its own session alone, also by a name that some alphabets take for another's", async () => {
  const [upper, lower] = [await cloud.create({ name: 'É' }), await cloud.create({ name: 'é' })]
  const jwt = new URL(upper.cdp_ws_url).searchParams.get('jwt')
  const base = new URL(upper.base_url).pathname.replace(upper.session_id, '%C3%A9')
  for (const path of ['/cdp/json/version', '/cdp/json/list', '/replays']) {
    const said = await (await fetch(`${cloud.url}${base}${path}?jwt=${jwt}`)).text()
    expect(said).not.toContain(lower.session_id)
  }
  for (const { session_id } of [upper, lower]) expect((await cloud.fetch(`/browsers/${session_id}`, { method: 'DELETE' })).status).toBe(204)
})

test('a session goes on for the holder of its token when its project was archived', async () => {
  const theirs = (await (await ask('POST', '/browsers', { 'X-Kernel-Project': OTHER.id }, {})).json()) as Session
  await cloud.query(`update projects set status = 'archived' where id = $1`, [OTHER.id])
  try {
    await expect.poll(async () => (await ask('GET', '/browsers', { 'X-Kernel-Project': OTHER.id })).status).toBe(404)
    const jwt = new URL(theirs.cdp_ws_url).searchParams.get('jwt')
    expect((await fetch(`${theirs.base_url}/computer/screenshot?jwt=${jwt}`, { method: 'POST' })).status).toBe(200)
  } finally {
    await cloud.query(`update projects set status = 'active' where id = $1`, [OTHER.id])
  }
  await expect.poll(async () => (await ask('DELETE', `/browsers/${theirs.session_id}`, { 'X-Kernel-Project': OTHER.id })).status).toBe(204)
})

const serviceOf = (project: string): Service => ({
  fetch: (path, init = {}) => cloud.fetch(path, { ...init, headers: { ...(init.headers as Record<string, string>), 'X-Kernel-Project': project } }),
})

test('a repeated call of an app is not answered with the run of another project', async () => {
  const body = JSON.stringify({ app_name: 'both', version: 'latest', action_name: 'echo', payload: '"same"' })
  const ids: string[] = []
  for (const project of ['default', OTHER.id]) {
    const service = serviceOf(project)
    await deployed(service, { env: fakeApps({ both: ['echo'] }) })
    const headers = { 'content-type': 'application/json', 'x-stainless-retry-count': '1' }
    const { id } = (await (await service.fetch('/invocations', { method: 'POST', headers, body })).json()) as { id: string }
    expect((await service.fetch(`/invocations/${id}`)).status).toBe(200)
    ids.push(id)
  }
  expect(new Set(ids).size).toBe(2)
})

test('the link to a recording opens nothing when the project has been deleted', async () => {
  const { id } = (await (await cloud.send('POST', '/org/projects', { name: 'filmed' })).json()) as { id: string }
  const service = serviceOf(id)
  const post = { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' }
  const { session_id } = (await (await service.fetch('/browsers', post)).json()) as Session
  const { replay_view_url } = (await (await service.fetch(`/browsers/${session_id}/replays`, post)).json()) as { replay_view_url: string }
  expect((await fetch(replay_view_url)).status).toBe(200)
  expect((await service.fetch(`/browsers/${session_id}`, { method: 'DELETE' })).status).toBe(204)
  expect((await fetch(replay_view_url)).status).toBe(200)
  expect((await cloud.fetch(`/org/projects/${id}`, { method: 'DELETE' })).status).toBe(204)
  expect((await fetch(replay_view_url)).status).toBe(404)
})
