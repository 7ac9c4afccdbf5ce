// Handlers of the contract of credential providers.
import { known, type Handlers } from '../../../http/route.ts'
import type { credentialProviders as contract } from './contract.ts'
import type { CredentialProviders } from './providers.ts'

export const credentialProviderHandlers = (providers: CredentialProviders): Handlers<typeof contract> => ({
  createCredentialProvider: ({ principal, body, signal }) => providers.create(known(principal), body, signal),
  listCredentialProviders: ({ query }) => providers.list(query),
  getCredentialProvider: ({ params }) => providers.get(params.id),
  updateCredentialProvider: ({ principal, params, body, signal }) => providers.update(known(principal), params.id, body, signal),
  deleteCredentialProvider: ({ principal, params }) => providers.delete(known(principal), params.id),
  listCredentialProviderItems: ({ principal, params, signal }) => providers.items(known(principal), params.id, signal),
  testCredentialProvider: ({ principal, params, signal }) => providers.test(known(principal), params.id, signal),
})
