// The project in effect for a request, with one row per case of the table in docs/decisions/0068.
import { createHash } from 'node:crypto'
import { beforeAll, expect, test } from 'vitest'
import { newId } from '../src/base/ids.ts'
import { newKey } from '../src/control/access/keys.ts'
import { DEFAULT_PROJECT } from '../src/control/access/projects/resolve.ts'
import { conforms } from './support/contract.ts'
import { fastCloud, type Session } from './support/fast-cloud.ts'

// Fixed ids, because they are part of the tests' names.
const TEAM = 'projectteam0000000000000'
const OTHER = 'projectother000000000000'
const ARCHIVED = 'projectpast0000000000000'
const UNKNOWN = 'projectunknown0000000000'

/** The projects. Each has one session with the same name. */
const projects = { default: DEFAULT_PROJECT, team: TEAM, other: OTHER }
type InEffect = keyof typeof projects

/** The callers: a key of all projects, keys of one project, the key of an app deployed in the team's project, and the token of the team's session. */
const callers = ['key of all', 'key of default', 'key of team', 'key of archived', "key of an app's deployment", 'token of a session'] as const
type Caller = (typeof callers)[number]

const keys = new Map<Caller, string>()
let session: Session
const cloud = fastCloud({ COB_WARM_BROWSERS: '0' })
beforeAll(async () => {
  await cloud.query(`insert into projects (id, name, status) values ($1, 'Team Élan', 'active'), ($2, 'other', 'active'), ($3, 'past', 'archived')`, [
    TEAM,
    OTHER,
    ARCHIVED,
  ])
  for (const [name, project] of Object.entries(projects)) {
    const made = await cloud.fetch('/browsers', {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-kernel-project': project },
      body: JSON.stringify({ name }),
    })
    expect(made.status).toBe(200)
    if (name === 'team') session = (await made.json()) as Session
  }
  const deployment = newId()
  await cloud.query(
    `insert into deployments (id, scope, state, region, env_keys, project_id) values ($1, 'elsewhere', 'stopped', 'aws.us-east-1a', '[]', $2)`,
    [deployment, TEAM],
  )
  keys.set('key of all', cloud.key)
  for (const [caller, project, ofDeployment] of [
    ['key of default', DEFAULT_PROJECT, null],
    ['key of team', TEAM, null],
    ['key of archived', ARCHIVED, null],
    ["key of an app's deployment", TEAM, deployment],
  ] as const) {
    const key = newKey()
    await cloud.query('insert into api_keys (id, name, hash, masked, project_id, deployment_id) values ($1, $2, $3, $4, $5, $6)', [
      newId(),
      caller,
      createHash('sha256').update(key).digest(),
      key.slice(0, 8),
      project,
      ofDeployment,
    ])
    keys.set(caller, key)
  }
})

const ask = (caller: Caller, method: string, path: string, headers: Record<string, string> = {}, body?: object) =>
  fetch(cloud.url + path, {
    method,
    headers: { authorization: `Bearer ${keys.get(caller)}`, ...headers, ...(body && { 'content-type': 'application/json' }) },
    ...(body && { body: JSON.stringify(body) }),
  })
async function refusal(response: Response): Promise<[number, string]> {
  const body = (await response.json()) as { code: string }
  conforms('ErrorModel', body)
  return [response.status, body.code]
}

/** The project in effect is the one whose session is in the list. A token reaches only its own session. */
async function inEffect(caller: Caller, headers: Record<string, string>): Promise<unknown> {
  if (caller === 'token of a session') {
    const jwt = new URL(session.cdp_ws_url).searchParams.get('jwt')
    const response = await fetch(`${session.base_url}/computer/screenshot?jwt=${jwt}`, { method: 'POST', headers })
    return response.status === 200 ? 'team' : refusal(response)
  }
  const response = await ask(caller, 'GET', '/browsers', headers)
  if (response.status !== 200) return refusal(response)
  const listed = ((await response.json()) as Session[]).map(({ name }) => name)
  // A create uses the same project as a list.
  const made = await ask(caller, 'POST', '/browsers', headers, {})
  const { session_id: id } = (await made.json()) as Session
  const [row] = await cloud.query<{ project_id: string }>('select project_id from browsers where id = $1', [id])
  expect((await ask(caller, 'DELETE', `/browsers/${id}`, headers)).status).toBe(204)
  expect([listed.length, row!.project_id]).toEqual([1, projects[listed[0] as InEffect]])
  return listed[0]
}

const NAME = 'X-Kernel-Project'
const ID = 'X-Kernel-Project-Id'
const NOT_FOUND = [404, 'project_not_found'] as const
const FORBIDDEN = [403, 'forbidden'] as const
const DISAGREE = [400, 'bad_request'] as const

/** The caller, the value of each header (undefined: not sent), and the project in effect or the refusal. */
type Row = [caller: Caller, name: string | undefined, id: string | undefined, expected: InEffect | readonly [number, string]]
/** The same case for each header: both accept an id and a name. */
const either = (caller: Caller, named: string, expected: Row[3]): Row[] => [
  [caller, named, undefined, expected],
  [caller, undefined, named, expected],
]

test.each<Row>([
  ['key of all', undefined, undefined, 'default'],
  ['key of all', '', '', 'default'],
  ...either('key of all', DEFAULT_PROJECT, 'default'),
  ...either('key of all', 'Default', 'default'),
  ...either('key of all', 'dEFAULT', 'default'),
  ...either('key of all', TEAM, 'team'),
  ...either('key of all', 'Team Élan', 'team'),
  ...either('key of all', 'tEAM Élan', 'team'),
  ...either('key of all', utf8('Team Élan'), 'team'),
  ...either('key of all', utf8('TEAM éLAN'), 'team'),
  ...either('key of all', 'nonesuch', NOT_FOUND),
  ...either('key of all', UNKNOWN, NOT_FOUND),
  ...either('key of all', ARCHIVED, NOT_FOUND),
  ...either('key of all', 'past', NOT_FOUND),
  ['key of all', 'OTHER', OTHER, 'other'],
  ['key of all', OTHER, 'other', 'other'],
  ['key of all', '', OTHER, 'other'],
  ['key of all', 'other', TEAM, DISAGREE],
  ['key of all', 'default', TEAM, DISAGREE],
  ['key of all', 'nonesuch', TEAM, NOT_FOUND],
  ['key of all', 'other', ARCHIVED, NOT_FOUND],

  ['key of team', undefined, undefined, 'team'],
  ['key of team', '', '', 'team'],
  ...either('key of team', TEAM, 'team'),
  ...either('key of team', utf8('TEAM Élan'), 'team'),
  ...either('key of team', OTHER, FORBIDDEN),
  ...either('key of team', 'other', FORBIDDEN),
  ...either('key of team', 'default', FORBIDDEN),
  ...either('key of team', 'nonesuch', NOT_FOUND),
  ...either('key of team', ARCHIVED, NOT_FOUND),
  ['key of team', utf8('Team Élan'), TEAM, 'team'],
  ['key of team', OTHER, OTHER, FORBIDDEN],
  ['key of team', TEAM, OTHER, DISAGREE],
  ['key of team', OTHER, TEAM, DISAGREE],

  // For a key that belongs to it, the default project is like any other.
  ['key of default', undefined, undefined, 'default'],
  ...either('key of default', 'default', 'default'),
  ...either('key of default', TEAM, FORBIDDEN),

  ['key of archived', undefined, undefined, NOT_FOUND],
  ...either('key of archived', ARCHIVED, NOT_FOUND),
  ...either('key of archived', TEAM, FORBIDDEN),

  ["key of an app's deployment", undefined, undefined, 'team'],
  ...either("key of an app's deployment", TEAM, 'team'),
  ...either("key of an app's deployment", 'default', FORBIDDEN),
  ...either("key of an app's deployment", 'nonesuch', NOT_FOUND),
  ["key of an app's deployment", TEAM, OTHER, DISAGREE],

  ['token of a session', undefined, undefined, 'team'],
  ['token of a session', '', '', 'team'],
  ...either('token of a session', TEAM, 'team'),
  ...either('token of a session', 'default', FORBIDDEN),
  ...either('token of a session', OTHER, FORBIDDEN),
  ...either('token of a session', 'nonesuch', NOT_FOUND),
  ...either('token of a session', ARCHIVED, NOT_FOUND),
  ['token of a session', TEAM, OTHER, DISAGREE],
])('%s, X-Kernel-Project %j, X-Kernel-Project-Id %j: %j', async (caller, name, id, expected) => {
  const headers = { ...(name !== undefined && { [NAME]: name }), ...(id !== undefined && { [ID]: id }) }
  expect(await inEffect(caller, headers)).toEqual(expected)
})

/** The header value whose bytes are the text in UTF-8; `fetch` sends one byte for each character (Latin-1). */
function utf8(text: string): string {
  return Buffer.from(text).toString('latin1')
}

// A key of one project may rename that project. Every other change of projects needs a key of all projects, and so does every list of all of them.
test.each<[caller: Caller, method: string, path: string, body: object | undefined, expected: readonly [number, string?]]>([
  ['key of team', 'PATCH', `/org/projects/${TEAM}`, { name: 'Team Élan' }, [200]],
  ['key of team', 'POST', '/org/projects', { name: 'one more' }, FORBIDDEN],
  ['key of team', 'PATCH', `/org/projects/${TEAM}`, { status: 'archived' }, FORBIDDEN],
  ['key of team', 'PATCH', `/org/projects/${TEAM}`, { name: 'both', status: 'active' }, FORBIDDEN],
  ['key of team', 'DELETE', `/org/projects/${TEAM}`, undefined, FORBIDDEN],
  ['key of team', 'PATCH', `/org/projects/${TEAM}/limits`, { max_concurrent_sessions: 1 }, FORBIDDEN],
  ['key of team', 'PATCH', '/org/limits', { default_project_max_concurrent_sessions: 1 }, FORBIDDEN],
  ['key of team', 'GET', '/org/limits', undefined, FORBIDDEN],
  ['key of team', 'GET', '/metrics', undefined, FORBIDDEN],
  ['key of default', 'GET', '/metrics', undefined, FORBIDDEN],
  ["key of an app's deployment", 'GET', `/org/projects/${TEAM}`, undefined, [200]],
  ["key of an app's deployment", 'PATCH', `/org/projects/${TEAM}`, { name: 'mine' }, FORBIDDEN],
  ["key of an app's deployment", 'POST', '/org/projects', { name: 'one more' }, FORBIDDEN],
  ["key of an app's deployment", 'DELETE', `/org/projects/${TEAM}`, undefined, FORBIDDEN],
  ["key of an app's deployment", 'PATCH', `/org/projects/${TEAM}/limits`, { max_concurrent_sessions: 1 }, FORBIDDEN],
  ["key of an app's deployment", 'PATCH', '/org/limits', { default_project_max_concurrent_sessions: 1 }, FORBIDDEN],
  ["key of an app's deployment", 'GET', '/metrics', undefined, FORBIDDEN],
  ['key of all', 'GET', '/metrics', undefined, [200]],
  ['key of all', 'PATCH', `/org/projects/${TEAM}`, { name: 'Team Élan', status: 'active' }, [200]],
  ['key of all', 'PATCH', `/org/projects/${TEAM}/limits`, { max_concurrent_sessions: 50 }, [200]],
])('%s: %s %s %j: %j', async (caller, method, path, body, expected) => {
  const state = () =>
    cloud.query(
      'select (select json_agg(p order by id) from (select id, name, status from projects) p) as projects, (select json_agg(o) from org_limits o) as limits',
    )
  const before = await state()
  const response = await ask(caller, method, path, {}, body)
  expect(expected.length === 1 ? [response.status] : await refusal(response)).toEqual(expected)
  if (expected.length > 1) expect(await state()).toEqual(before)
})
