// Looking a deployment up, in each of its states. Deploying is later work, so the rows are written here.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { conforms } from '../../../test/support/contract.ts'
import { startFastCloud, type FastCloud } from '../../../test/support/fast-cloud.ts'
import { newId } from '../../base/ids.ts'
import { deploymentLifecycle } from './lifecycle.ts'

let cloud: FastCloud
beforeAll(async () => {
  cloud = await startFastCloud({ COB_WARM_BROWSERS: '0' })
})
afterAll(() => cloud[Symbol.asyncDispose]())

async function insert(columns: Record<string, unknown>): Promise<string> {
  const id = newId()
  const row: Record<string, unknown> = { id, region: 'aws.us-east-1a', ...columns }
  const names = Object.keys(row)
  await cloud.query(`insert into deployments (${names.join()}) values (${names.map((_, index) => `$${index + 1}`).join()})`, Object.values(row))
  return id
}
async function get(id: string): Promise<{ status: number; body: Record<string, unknown> }> {
  const response = await cloud.fetch(`/deployments/${encodeURIComponent(id)}`)
  return { status: response.status, body: (await response.json()) as Record<string, unknown> }
}

describe('a deployment', () => {
  test.each(deploymentLifecycle.states.map((state) => ({ state })))('that is $state is found with that status', async ({ state }) => {
    const { status, body } = await get(await insert({ state }))
    conforms('DeploymentRetrieveResponse', body)
    expect([status, body.status]).toEqual([200, state])
  })

  test('has what is known of it, and leaves out what is not', async () => {
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
    const full = await get(await insert({ state: 'failed', ...known, app_name: 'app', app_version: '1', created_at: created, updated_at: created }))
    conforms('DeploymentRetrieveResponse', full.body)
    expect(full.body).toMatchObject({ ...known, created_at: created.toISOString(), updated_at: created.toISOString(), region: 'aws.us-east-1a' })
    const bare = await get(await insert({ state: 'queued' }))
    expect(Object.keys(bare.body).toSorted()).toEqual(['created_at', 'env_vars', 'id', 'region', 'status', 'updated_at'])
  })

  test('tells the names of its variables and never their values', async () => {
    const { body } = await get(await insert({ state: 'running', env_keys: JSON.stringify(['DATABASE_URL', 'TOKEN']) }))
    expect(body.env_vars).toEqual({ DATABASE_URL: '', TOKEN: '' })
  })
})

test.each([newId(), 'nothing', ' ', 'a/b', '🌽', '..x', 'x'.repeat(1000)])('there is no deployment %j: 404', async (id) => {
  const { status, body } = await get(id)
  conforms('ErrorModel', body)
  expect([status, body.code]).toEqual([404, 'not_found'])
})
