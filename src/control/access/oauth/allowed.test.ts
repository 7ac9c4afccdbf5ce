// The programs that were allowed access: who sees them, and who ends what.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { readFrames } from '../../../../test/support/apps.ts'
import { startFastCloud, type FastCloud } from '../../../../test/support/fast-cloud.ts'
import { signedIn, type SignedIn } from '../../../../test/support/people.ts'
import { within } from '../../../base/wait.ts'
import { deploy } from '../../apps/invocations/deployed.suite.ts'
import { DEFAULT_PROJECT } from '../projects/resolve.ts'
import type { AllowedProgram } from './contract.ts'
import { oauthFlow } from './flow.suite.ts'

const ENDS_MS = 6_000

let cloud: FastCloud
let person: SignedIn
let other: SignedIn
beforeAll(async () => {
  cloud = await startFastCloud({ COB_WARM_BROWSERS: '0' })
  person = await signedIn(cloud, { '': 'member' })
  other = await signedIn(cloud, { '': 'owner' })
})
afterAll(() => cloud[Symbol.asyncDispose]())

const { codeFor, tokensFor, refresh, withToken } = oauthFlow(() => cloud)
const listed = async (by: Pick<SignedIn, 'fetch'>, query = ''): Promise<AllowedProgram[]> =>
  (await (await by.fetch(`/oauth/grants${query}`)).json()) as AllowedProgram[]

test('who has allowed them sees them, newest first, and nobody else does', async () => {
  await tokensFor(person, { project_id: DEFAULT_PROJECT })
  await tokensFor(person, { looks_only: true })
  // It has not fetched its token.
  await codeFor(person)
  const before = { id: expect.any(String) as string, name: 'Kernel CLI', created_at: expect.any(String) as string, expires_at: expect.any(String) as string }
  expect(await listed(person)).toEqual([
    { ...before, project_id: null, looks_only: true },
    { ...before, project_id: DEFAULT_PROJECT, looks_only: false },
  ])
  const first = await person.fetch('/oauth/grants?limit=1')
  expect([first.headers.get('x-has-more'), first.headers.get('x-next-offset'), ((await first.json()) as object[]).length]).toEqual(['true', '1', 1])
  expect(await listed(other)).toEqual([])
  expect(await listed(cloud)).toEqual([])
})

test('who has allowed one ends it at once, with its tokens and the streams that are open', async () => {
  const tokens = await tokensFor(person)
  const deployment = await deploy(cloud)
  const frames = readFrames(await withToken(tokens.access_token, `/deployments/${deployment}/events`))
  const [{ id }] = (await listed(person)) as [AllowedProgram]
  for (const stranger of [other, cloud]) expect((await stranger.fetch(`/oauth/grants/${id}`, { method: 'DELETE' })).status).toBe(404)
  expect((await withToken(tokens.access_token, '/me')).status).toBe(200)
  expect((await person.fetch(`/oauth/grants/${id}`, { method: 'DELETE' })).status).toBe(204)
  expect((await withToken(tokens.access_token, '/me')).status).toBe(401)
  expect((await refresh(tokens.refresh_token)).body.error).toBe('invalid_grant')
  expect((await within('the stream to end', ENDS_MS, frames)).at(-1)?.data).toMatchObject({ event: 'error', error: { code: 'unauthorized' } })
  expect((await person.fetch(`/oauth/grants/${id}`, { method: 'DELETE' })).status).toBe(404)
})

test('a program that was allowed access neither sees nor ends what was allowed', async () => {
  const { access_token: token } = await tokensFor(person)
  const [{ id }] = (await listed(person)) as [AllowedProgram]
  expect((await withToken(token, '/oauth/grants')).status).toBe(403)
  expect((await withToken(token, `/oauth/grants/${id}`, { method: 'DELETE' })).status).toBe(403)
})
