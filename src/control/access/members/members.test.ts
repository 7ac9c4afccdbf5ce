// The Members group: who may give which role to whom, and that a removed role has no effect at once.
import { beforeAll, describe, expect, test } from 'vitest'
import { fastCloud } from '../../../../test/support/fast-cloud.ts'
import { signedIn, type SignedIn } from '../../../../test/support/people.ts'
import { DEFAULT_PROJECT } from '../projects/resolve.ts'
import type { Member } from './contract.ts'

/** A sign-in is cached for 2 s. */
const FORGOTTEN_MS = 4_000

let owner: SignedIn
let other: string
const cloud = fastCloud({ COB_WARM_BROWSERS: '0', COB_OIDC_ISSUER: 'https://idp.test', COB_OIDC_CLIENT_ID: 'cob' })
beforeAll(async () => {
  owner = await signedIn(cloud, { '': 'owner' })
  other = ((await (await cloud.send('POST', '/org/projects', { name: 'members other' })).json()) as { id: string }).id
})

const invite = async (by: Pick<SignedIn, 'send'>, body: object) => {
  const response = await by.send('POST', '/org/members', body)
  return { status: response.status, body: (await response.json()) as Member & { message?: string } }
}

describe('an invitation', () => {
  test('by address gives a role before the first sign-in', async () => {
    const { status, body } = await invite(owner, { email: 'New.Person@team.test', name: 'New', role: 'member', project_id: other })
    expect([status, body]).toEqual([
      201,
      {
        id: expect.any(String),
        email: 'New.Person@team.test',
        name: 'New',
        subject: null,
        status: 'invited',
        role: null,
        projects: [{ id: other, name: 'members other', role: 'member' }],
        created_at: expect.any(String),
        signed_in_at: null,
      },
    ])
    expect(await (await owner.fetch(`/org/members/${body.id}`)).json()).toEqual(body)
    // Another role for the same person is added, whatever the case of the address; the same role again is a conflict.
    expect((await invite(owner, { email: 'new.person@TEAM.test', role: 'viewer' })).body).toMatchObject({
      id: body.id,
      role: 'viewer',
      projects: [{ role: 'member' }],
    })
    expect((await invite(owner, { email: 'new.person@team.test', role: 'owner' })).status).toBe(409)
  })

  test('by subject, once', async () => {
    expect((await invite(owner, { subject: 'u-1', role: 'viewer' })).body).toMatchObject({ subject: 'u-1', email: null, role: 'viewer', status: 'invited' })
    expect((await invite(owner, { subject: 'u-1', role: 'viewer' })).status).toBe(409)
  })

  test.each([
    [{ role: 'member' }, 'email'],
    [{ email: 'a@b.test', subject: 'x', role: 'member' }, 'email'],
    [{ email: 'no address', role: 'member' }, 'email'],
    [{ email: 'a@b.test', role: 'admin' }, 'role'],
    [{ email: 'a@b.test' }, 'role'],
  ])('%j is refused, naming %s', async (body, field) => {
    const refused = await invite(owner, body)
    expect([refused.status, refused.body.message]).toEqual([400, expect.stringContaining(field)])
  })

  test('into a project that is not there is refused, and leaves nobody', async () => {
    expect((await invite(owner, { email: 'lost@team.test', role: 'member', project_id: 'unknown' })).status).toBe(404)
    expect(await cloud.query(`select from people where email = 'lost@team.test'`)).toEqual([])
  })

  test('of a project is made by its owners and its keys, for this project only', async () => {
    const local = await signedIn(cloud, { [other]: 'owner' })
    const { key } = (await (await cloud.send('POST', '/org/api_keys', { name: 'k', project_id: other })).json()) as { key: string }
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
    const byKey: Pick<SignedIn, 'send'> = {
      send(method, path, body) {
        const init: RequestInit = { method, headers, body: JSON.stringify(body) }
        return fetch(cloud.url + path, init)
      },
    }
    for (const [index, by] of [local, byKey].entries()) {
      const email = `local${index}@team.test`
      expect((await invite(by, { email, role: 'member' })).status).toBe(403)
      expect((await invite(by, { email, role: 'member', project_id: DEFAULT_PROJECT })).status).toBe(403)
      expect((await invite(by, { email, role: 'member', project_id: other })).status).toBe(201)
    }
    // Of people with roles elsewhere, they see only the role in this project.
    const shown = (await (await local.fetch('/org/members?limit=100')).json()) as Member[]
    expect(shown.length).toBeGreaterThan(2)
    for (const { role, projects } of shown) expect([role, projects.map(({ id }) => id)]).toEqual([null, [other]])
    expect((await local.fetch(`/org/members/${owner.id}`)).status).toBe(404)
    expect((await local.send('DELETE', `/org/members/${owner.id}`)).status).toBe(404)
    expect((await local.send('PATCH', `/org/members/${owner.id}`, { role: 'viewer', project_id: other })).status).toBe(404)
  })
})

describe('a role', () => {
  test('that changes counts within two seconds', async () => {
    const person = await signedIn(cloud, { '': 'viewer' })
    expect((await person.send('POST', '/profiles', {})).status).toBe(403)
    expect(await (await owner.send('PATCH', `/org/members/${person.id}`, { role: 'member' })).json()).toMatchObject({ role: 'member' })
    await expect.poll(async () => (await person.send('POST', '/profiles', {})).status, { timeout: FORGOTTEN_MS }).toBe(201)
  })

  test('in one project is added, changed and taken beside the one for all', async () => {
    const person = await signedIn(cloud, { '': 'viewer' })
    const set = (role: string) => owner.send('PATCH', `/org/members/${person.id}`, { role, project_id: other })
    await set('member')
    expect(await (await set('owner')).json()).toMatchObject({ role: 'viewer', projects: [{ id: other, role: 'owner' }] })
    expect((await owner.send('DELETE', `/org/members/${person.id}?project_id=${other}`)).status).toBe(204)
    expect((await owner.send('DELETE', `/org/members/${person.id}?project_id=${other}`)).status).toBe(404)
    expect(await (await owner.fetch(`/org/members/${person.id}`)).json()).toMatchObject({ role: 'viewer', projects: [] })
  })

  test('of oneself cannot be changed or taken', async () => {
    expect((await owner.send('PATCH', `/org/members/${owner.id}`, { role: 'viewer' })).status).toBe(409)
    expect((await owner.send('DELETE', `/org/members/${owner.id}`)).status).toBe(409)
  })

  test('is not taken by two owners from each other at once', async () => {
    const [one, two] = [await signedIn(cloud, { '': 'owner' }), await signedIn(cloud, { '': 'owner' })]
    // Both are in the cache before they act.
    await Promise.all([one.fetch('/me'), two.fetch('/me')])
    const statuses = await Promise.all([one.send('DELETE', `/org/members/${two.id}`), two.send('DELETE', `/org/members/${one.id}`)])
    expect(statuses.map(({ status }) => status).toSorted()).toEqual([204, 403])
  })
})

describe('a person who is removed', () => {
  test('is signed out, and found no more', async () => {
    const person = await signedIn(cloud, { '': 'member', [other]: 'owner' })
    expect((await person.fetch('/me')).status).toBe(200)
    expect((await owner.send('DELETE', `/org/members/${person.id}`)).status).toBe(204)
    await expect.poll(async () => (await person.fetch('/me')).status, { timeout: FORGOTTEN_MS }).toBe(401)
    expect((await owner.fetch(`/org/members/${person.id}`)).status).toBe(404)
    expect(await cloud.query('select from web_sessions where person_id = $1', [person.id])).toEqual([])
  })

  test('from the only project they have a role in is gone as well', async () => {
    const person = await signedIn(cloud, { [other]: 'member' })
    expect((await owner.send('DELETE', `/org/members/${person.id}?project_id=${other}`)).status).toBe(204)
    expect((await owner.fetch(`/org/members/${person.id}`)).status).toBe(404)
  })
})

test('the list is paged and searched', async () => {
  for (let index = 0; index < 3; index++) await invite(owner, { email: `paged${index}@team.test`, role: 'viewer' })
  const first = await owner.fetch('/org/members?query=PAGED&limit=2')
  expect([first.headers.get('x-has-more'), first.headers.get('x-next-offset'), ((await first.json()) as Member[]).map(({ email }) => email)]).toEqual([
    'true',
    '2',
    ['paged0@team.test', 'paged1@team.test'],
  ])
  expect(await (await owner.fetch('/org/members?query=paged&limit=2&offset=2')).json()).toMatchObject([{ email: 'paged2@team.test' }])
})
