// The answers of the service about a caller's own account and about the service.
import { beforeAll, expect, test } from 'vitest'
import { fastCloud } from '../../../../test/support/fast-cloud.ts'
import { newId } from '../../../base/ids.ts'
import type { CreatedApiKey } from '../api-keys/contract.ts'

const PROJECT = { id: newId(), name: 'Team of two' }

const cloud = fastCloud({ COB_WARM_BROWSERS: '0', COB_MAX_BROWSERS: '7', COB_MAX_INVOCATIONS: '9', COB_REPLAY_RETENTION_DAYS: '11' })
beforeAll(async () => {
  await cloud.query('insert into projects (id, name) values ($1, $2)', [PROJECT.id, PROJECT.name])
})

const ask = async <T>(path: string, headers: Record<string, string> = {}) => (await (await cloud.fetch(path, { headers })).json()) as T
interface Context {
  authentication: object
  authorization: object
  organization: object
  principal: object
}
const context = (headers: Record<string, string> = {}) => ask<Context>('/auth/context', headers)
const scopes = (credential: string | null, effective: string | null) => ({
  credential_scope: { project_id: credential },
  effective_scope: { project_id: effective },
})

test('the context tells the key, its project and the one in effect', async () => {
  const [first] = await ask<{ id: string }[]>('/org/api_keys')
  const { id } = first!
  expect(await context()).toEqual({
    authentication: { credential_id: id, method: 'api_key', source: 'api_key' },
    authorization: scopes(null, null),
    organization: { id: 'defaultorganization00000' },
    principal: { id, type: 'api_key' },
  })
  for (const header of ['x-kernel-project', 'x-kernel-project-id'])
    expect((await context({ [header]: PROJECT.id })).authorization).toEqual(scopes(null, PROJECT.id))
  const own = (await (await cloud.send('POST', '/org/api_keys', { name: 'own', project_id: PROJECT.id })).json()) as CreatedApiKey
  const asOwn = await context({ authorization: `Bearer ${own.key}` })
  expect([asOwn.authorization, asOwn.principal]).toEqual([scopes(PROJECT.id, PROJECT.id), { id: own.id, type: 'api_key' }])
})

test.each(['/auth/context', '/org/entitlements'])('%s needs a key', async (path) => {
  expect((await cloud.fetch(path, { headers: { authorization: 'Bearer cob_nobody' } })).status).toBe(401)
})

test('the entitlements include everything, with the limits of the settings', async () => {
  const { features, limits, plan } = await ask<{ features: Record<string, { enabled: boolean }>; limits: object; plan: object }>('/org/entitlements')
  expect(Object.values(features).map(({ enabled }) => enabled)).toEqual(Array.from({ length: 14 }, () => true))
  expect(features.browser_replays).toEqual({ enabled: true, retention_days: 11 })
  expect(limits).toEqual({ default_max_concurrent_invocations_per_app: 9, max_concurrent_browsers: 7, max_concurrent_invocations: 9, max_vaults: null })
  expect(plan).toEqual({ id: 'ENTERPRISE', effective_id: 'ENTERPRISE', is_trialing: false, status: 'ACTIVE', trial_ends_at: null })
})
