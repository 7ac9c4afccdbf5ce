// The published SDKs with a running service: credential providers. Every answer is checked against the contract.
import { BadRequestError, ConflictError, NotFoundError } from '@onkernel/sdk'
import type { CredentialProviderCreateParams } from '@onkernel/sdk/resources/credential-providers'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { startCloud } from '../support/cloud.ts'
import { conforms } from '../support/contract.ts'
import { forTests } from '../support/for-tests.ts'
import { runPython } from '../support/python.ts'

/** The SDK's types know `onepassword` only. */
const FILE = 'file' as CredentialProviderCreateParams['provider_type']
const TOKEN = '{"file":"items.json"}'

const cloud = forTests(() => startCloud({ COB_DRIVER: 'fake', COB_WARM_BROWSERS: '0' }))
beforeAll(async () => {
  const dir = join(cloud.dataDir, 'credential-files')
  mkdirSync(dir)
  const items = [{ title: 'Site', urls: ['site.test'], values: { username: 'kim', password: 'CANARY' } }]
  writeFileSync(join(dir, 'items.json'), JSON.stringify({ items }), { mode: 0o600 })
})

test('client.credentialProviders creates, retrieves, lists, tries, shows items, updates and deletes', async () => {
  const { credentialProviders: providers } = cloud.client
  const made = await providers.create({ name: 'mine', provider_type: FILE, token: TOKEN })
  expect(made).toMatchObject({ name: 'mine', provider_type: 'file', enabled: true, priority: 0 })
  expect(await providers.retrieve(made.id)).toEqual(made)
  const listed = []
  for await (const one of providers.list({ query: 'mine' })) listed.push(one)
  expect(listed).toEqual([made])
  const tried = await providers.test(made.id)
  conforms('CredentialProviderTestResult', tried)
  expect(tried).toEqual({ success: true, vaults: [{ id: 'File', name: 'File' }] })
  const items = await providers.listItems(made.id)
  conforms('CredentialProviderListItemsResponse', items)
  expect(items.items).toEqual([{ id: 'File/Site', path: 'File/Site', title: 'Site', vault_id: 'File', vault_name: 'File', urls: ['site.test'] }])
  expect(await providers.update(made.id, { enabled: false, priority: 3, cache_ttl_seconds: 0, name: 'yours' })).toMatchObject({
    id: made.id,
    name: 'yours',
    enabled: false,
    priority: 3,
  })
  await expect(providers.create({ name: 'YOURS', provider_type: FILE, token: TOKEN })).rejects.toBeInstanceOf(ConflictError)
  await expect(providers.create({ name: 'x', provider_type: FILE, token: 'CANARY' })).rejects.toBeInstanceOf(BadRequestError)
  await providers.delete(made.id)
  for (const call of ['retrieve', 'test', 'listItems', 'delete'] as const) await expect(providers[call](made.id)).rejects.toBeInstanceOf(NotFoundError)
})

test('one of the published type conforms to the contract, and a bad token is an answer, not an error', async () => {
  const { credentialProviders: providers } = cloud.client
  const made = await providers.create({ name: 'one', provider_type: 'onepassword', token: 'CANARY', cache_ttl_seconds: 60 })
  conforms('CredentialProvider', made)
  conforms('CredentialProvider', await providers.retrieve(made.id))
  conforms('CredentialProvider', await providers.update(made.id, { token: 'CANARY 2' }))
  const tried = await providers.test(made.id)
  conforms('CredentialProviderTestResult', tried)
  expect(tried).toEqual({ success: false, vaults: [], error: 'this is no token of a service account of 1Password' })
  await providers.delete(made.id)
})

test.each(['0.84.0', '0.131.0'])('the Python SDK %s does the same', async (release) => {
  await runPython(cloud, release, ['credential_providers.py', TOKEN])
})
