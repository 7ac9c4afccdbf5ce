// manage_credentials and manage_credential_providers.
import { credentialProviders } from '../../../logins/credential-providers/contract.ts'
import { credentials } from '../../../logins/credentials/contract.ts'
import { tool } from '../tool.ts'
import { paging } from './browsers.ts'

export const manageCredentials = tool({
  name: 'manage_credentials',
  title: 'Manage credentials',
  description:
    'Manage the stored credentials that managed logins use. Their values are never returned. "totp_code" answers the present one-time code of a credential that has a secret for it.',
  fields: {
    id_or_name: 'Id or name of the credential.',
    name: 'Name of the credential.',
    domain: 'The site that it is for.',
    values: 'Values by field, such as username and password. In an update they are laid over those that it has.',
    sso_provider: 'Log in by this provider, such as "google". In an update an empty one removes it.',
    totp_secret: 'Secret of one-time codes: base32, or an otpauth address. In an update an empty one removes it.',
    ...paging,
  },
  actions: {
    list: credentials.listCredentials,
    get: credentials.getCredential,
    totp_code: credentials.getCredentialTotpCode,
    create: credentials.createCredential,
    update: credentials.updateCredential,
    delete: credentials.deleteCredential,
  },
})

export const manageCredentialProviders = tool({
  name: 'manage_credential_providers',
  title: 'Manage credential providers',
  description:
    'Manage password stores of others, such as 1Password, whose items managed logins use. "list_items" shows the items of one without their values, "test" tries whether it can be read. They belong to the whole organization.',
  hints: { openWorldHint: true },
  hasProject: false,
  fields: {
    id: 'Id of the provider.',
    name: 'Name of the provider.',
    provider_type: 'Kind of the store.',
    token: 'What opens the store. It is never shown again.',
    cache_ttl_seconds: 'How long the list of items is remembered.',
    enabled: 'Whether it is asked.',
    priority: 'Lower ones are asked first.',
    ...paging,
  },
  actions: {
    list: credentialProviders.listCredentialProviders,
    get: credentialProviders.getCredentialProvider,
    create: credentialProviders.createCredentialProvider,
    update: credentialProviders.updateCredentialProvider,
    delete: credentialProviders.deleteCredentialProvider,
    list_items: credentialProviders.listCredentialProviderItems,
    test: credentialProviders.testCredentialProvider,
  },
})
