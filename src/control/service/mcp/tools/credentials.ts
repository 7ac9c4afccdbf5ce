// manage_credentials and manage_credential_providers.
import { z } from 'zod'
import { credentials } from '../../../logins/credentials/contract.ts'
import { credentialProviders } from '../../../logins/credential-providers/contract.ts'
import { jsonResult, textResult } from '../results.ts'
import { field, paging, tool } from '../tool.ts'

const { body: Create } = credentials.createCredential
const { body: Update } = credentials.updateCredential

export const manageCredentials = tool(
  {
    name: 'manage_credentials',
    toolset: 'credentials',
    title: 'Manage credentials',
    description:
      'Manage the stored credentials that managed logins use. Their values are never returned. "totp_code" answers the present one-time code of a credential that has a secret for it.',
    fields: {
      id_or_name: z.string().min(1).describe('Id or name of the credential.'),
      name: field(Create.shape.name, 'Name of the credential.'),
      domain: z.string().min(1).max(253).describe('The site that it is for.'),
      values: field(Create.shape.values, 'Values by field, such as username and password. In an update they are laid over those that it has.'),
      sso_provider: field(Create.shape.sso_provider, 'Log in by this provider, such as "google". In an update an empty one removes it.'),
      totp_secret: field(Create.shape.totp_secret, 'Secret of one-time codes: base32, or an otpauth address. In an update an empty one removes it.'),
      ...paging,
    },
  },
  (on) => ({
    list: on({ takes: ['domain', 'limit', 'offset'] }, async ({ domain, limit, offset }, api) =>
      jsonResult(await api.call(credentials.listCredentials, { query: { domain, limit, offset } })),
    ),
    get: on({ needs: ['id_or_name'] }, async ({ id_or_name }, api) => jsonResult(await api.call(credentials.getCredential, { params: { id_or_name } }))),
    totp_code: on({ needs: ['id_or_name'] }, async ({ id_or_name }, api) =>
      jsonResult(await api.call(credentials.getCredentialTotpCode, { params: { id_or_name } })),
    ),
    create: on(
      { needs: ['name', 'domain', 'values'], takes: ['sso_provider', 'totp_secret'] },
      async ({ name, domain, values, sso_provider, totp_secret }, api) =>
        jsonResult(await api.call(credentials.createCredential, { body: { name, domain, values, sso_provider, totp_secret } as z.input<typeof Create> })),
    ),
    update: on({ needs: ['id_or_name'], takes: ['name', 'values', 'sso_provider', 'totp_secret'] }, async (given, api) => {
      const { id_or_name, name, values, sso_provider, totp_secret } = given
      const body = { name, values, sso_provider, totp_secret } as z.input<typeof Update>
      return jsonResult(await api.call(credentials.updateCredential, { params: { id_or_name }, body }))
    }),
    delete: on({ needs: ['id_or_name'] }, async ({ id_or_name }, api) => {
      await api.call(credentials.deleteCredential, { params: { id_or_name } })
      return textResult('The credential is deleted.')
    }),
  }),
)

const { body: CreateProvider } = credentialProviders.createCredentialProvider
const { body: UpdateProvider } = credentialProviders.updateCredentialProvider

export const manageCredentialProviders = tool(
  {
    name: 'manage_credential_providers',
    toolset: 'credential_providers',
    title: 'Manage credential providers',
    description:
      'Manage password stores of others, such as 1Password, whose items managed logins use. "list_items" shows the items of one without their values, "test" tries whether it can be read. They belong to the whole organization.',
    hints: { openWorldHint: true },
    hasProject: false,
    fields: {
      id: z.string().min(1).describe('Id of the provider.'),
      name: field(CreateProvider.shape.name, 'Name of the provider.'),
      provider_type: field(CreateProvider.shape.provider_type, 'Kind of the store.'),
      token: field(CreateProvider.shape.token, 'What opens the store. It is never shown again.'),
      cache_ttl_seconds: field(CreateProvider.shape.cache_ttl_seconds, 'How long the list of items is remembered. Default 300.'),
      enabled: z.boolean().describe('Whether it is asked.'),
      priority: field(UpdateProvider.shape.priority, 'Lower ones are asked first.'),
      ...paging,
    },
  },
  (on) => ({
    list: on({ takes: ['limit', 'offset'] }, async ({ limit, offset }, api) =>
      jsonResult(await api.call(credentialProviders.listCredentialProviders, { query: { limit, offset } })),
    ),
    get: on({ needs: ['id'] }, async ({ id }, api) => jsonResult(await api.call(credentialProviders.getCredentialProvider, { params: { id } }))),
    create: on({ needs: ['name', 'provider_type', 'token'], takes: ['cache_ttl_seconds'] }, async ({ name, provider_type, token, cache_ttl_seconds }, api) =>
      jsonResult(
        await api.call(credentialProviders.createCredentialProvider, {
          body: { name, provider_type, token, cache_ttl_seconds } as z.input<typeof CreateProvider>,
        }),
      ),
    ),
    update: on({ needs: ['id'], takes: ['name', 'token', 'cache_ttl_seconds', 'enabled', 'priority'] }, async (given, api) => {
      const { id, name, token, cache_ttl_seconds, enabled, priority } = given
      const body = { name, token, cache_ttl_seconds, enabled, priority } as z.input<typeof UpdateProvider>
      return jsonResult(await api.call(credentialProviders.updateCredentialProvider, { params: { id }, body }))
    }),
    delete: on({ needs: ['id'] }, async ({ id }, api) => {
      await api.call(credentialProviders.deleteCredentialProvider, { params: { id } })
      return textResult('The credential provider is deleted.')
    }),
    list_items: on({ needs: ['id'] }, async ({ id }, api) => jsonResult(await api.call(credentialProviders.listCredentialProviderItems, { params: { id } }))),
    test: on({ needs: ['id'] }, async ({ id }, api) => jsonResult(await api.call(credentialProviders.testCredentialProvider, { params: { id } }))),
  }),
)
