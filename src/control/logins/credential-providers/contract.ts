// The contract of credential providers: password stores outside this service, for all projects.
import * as z from 'zod'
import { isId } from '../../../base/ids.ts'
import { json, MAX_INTEGER, none, page, pagingQuery, route } from '../../../http/route.ts'
import { Time } from '../../apps/apps/contract.ts'

const group = 'Credential Providers'

/** `onepassword` is in the published API; the others are ours. */
export const PROVIDER_TYPES = ['onepassword', 'onepassword-connect', 'bitwarden', 'bitwarden-export', 'vault', 'file', 'command'] as const
const ProviderType = z.enum(PROVIDER_TYPES)
export type ProviderType = z.output<typeof ProviderType>

const MAX_NAME = 255
const Name = z
  .string()
  .trim()
  .min(1)
  .refine((name) => Array.from(name).length <= MAX_NAME, `must have at most ${MAX_NAME} characters`)
  .refine((name) => !/\p{Cc}/u.test(name), 'must have no control characters')
  .refine((name) => !isId(name.toLowerCase()), 'must not look like an id (24 letters and digits)')

/** The secret that opens the store: a plain text, or JSON, by type (docs/credential-providers.md). It is never shown again. */
const Token = z
  .string()
  .min(1)
  .max(64 * 1024)
  .refine((token) => !token.includes('\0'), 'must have no U+0000')

/** How long the list of items is cached. 0: not at all. Values are never cached. */
const CacheTtl = z.int().min(0).max(86_400)
const DEFAULT_CACHE_TTL = 300

export const CredentialProvider = z.object({
  id: z.string(),
  name: z.string(),
  provider_type: ProviderType,
  enabled: z.boolean(),
  /** Providers with lower numbers are asked first. */
  priority: z.int(),
  created_at: Time,
  updated_at: Time,
})
export type CredentialProvider = z.output<typeof CredentialProvider>

const Create = z.strictObject({ name: Name, provider_type: ProviderType, token: Token, cache_ttl_seconds: CacheTtl.default(DEFAULT_CACHE_TTL) })
export type CreateProvider = z.output<typeof Create>

const Update = z.strictObject({
  name: Name.optional(),
  token: Token.optional(),
  cache_ttl_seconds: CacheTtl.optional(),
  enabled: z.boolean().optional(),
  priority: z.int().min(-MAX_INTEGER).max(MAX_INTEGER).optional(),
})
export type UpdateProvider = z.output<typeof Update>

const Vault = z.object({ id: z.string(), name: z.string() })
const TestResult = z.object({ success: z.boolean(), vaults: z.array(Vault), error: z.string().optional() })
export type TestResult = z.output<typeof TestResult>

const Item = z.object({
  id: z.string(),
  /** `Vault/Item`. */
  path: z.string(),
  title: z.string(),
  vault_id: z.string(),
  vault_name: z.string(),
  urls: z.array(z.string()),
})
export type ProviderItem = z.output<typeof Item>

const PATH = '/org/credential_providers'
const params = z.strictObject({ id: z.string().min(1) })

export const credentialProviders = {
  createCredentialProvider: route({
    method: 'POST',
    path: PATH,
    id: 'createCredentialProvider',
    right: 'own',
    group,
    summary: 'Create a credential provider',
    body: Create,
    reply: json(CredentialProvider, 201),
    faults: ['forbidden', 'conflict'],
  }),
  listCredentialProviders: route({
    method: 'GET',
    path: PATH,
    id: 'listCredentialProviders',
    group,
    summary: 'List credential providers, in the order in which they are asked',
    query: z.strictObject({
      ...pagingQuery,
      /** Part of a name, or a whole id. */
      query: z.string().max(1024).optional(),
    }),
    reply: page(CredentialProvider),
  }),
  getCredentialProvider: route({
    method: 'GET',
    path: `${PATH}/{id}`,
    id: 'getCredentialProvider',
    group,
    summary: 'Get a credential provider',
    params,
    reply: json(CredentialProvider),
    faults: ['not_found'],
  }),
  updateCredentialProvider: route({
    method: 'PATCH',
    path: `${PATH}/{id}`,
    id: 'updateCredentialProvider',
    right: 'own',
    group,
    summary: 'Change a credential provider; its type stays',
    params,
    body: Update,
    reply: json(CredentialProvider),
    faults: ['forbidden', 'not_found', 'conflict', 'unavailable'],
  }),
  deleteCredentialProvider: route({
    method: 'DELETE',
    path: `${PATH}/{id}`,
    id: 'deleteCredentialProvider',
    right: 'own',
    group,
    summary: 'Delete a credential provider',
    params,
    reply: none(),
    faults: ['forbidden', 'not_found'],
  }),
  listCredentialProviderItems: route({
    method: 'GET',
    path: `${PATH}/{id}/items`,
    id: 'listCredentialProviderItems',
    right: 'use',
    group,
    summary: 'List the items of a credential provider, without their values',
    params,
    reply: json(z.object({ items: z.array(Item) })),
    faults: ['forbidden', 'not_found', 'bad_gateway', 'unavailable'],
  }),
  testCredentialProvider: route({
    method: 'POST',
    path: `${PATH}/{id}/test`,
    id: 'testCredentialProvider',
    right: 'use',
    group,
    summary: 'Try whether a credential provider can be read',
    params,
    reply: json(TestResult),
    reads: true,
    faults: ['forbidden', 'not_found'],
  }),
}
