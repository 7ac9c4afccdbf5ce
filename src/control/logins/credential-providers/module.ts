// Credential providers: the stores of an organization, in which logins look up their values.
import { sealedColumn } from '../../../store/sealed-columns.ts'
import { assertOrganization } from '../../access/projects/projects.ts'
import { defineModule } from '../../module.ts'
import { credentialProviders as contract } from './contract.ts'
import { credentialProviderHandlers } from './handlers.ts'
import { makeCredentialProviders, type CredentialProviders } from './providers.ts'

export const credentialProviders = defineModule<CredentialProviders>({
  name: 'credential-providers',
  contracts: [contract],
  sealed: [sealedColumn('credential_providers', 'token', { purpose: 'credential-providers' })],
  open(house) {
    const providers = makeCredentialProviders({ ...house, assertOrganization })
    house.mount(contract, credentialProviderHandlers(providers))
    return providers
  },
})
