// Credential providers: password stores of an organization that logins read.
import { sealedColumn } from '../../../store/sealed-columns.ts'
import { assertOrganization } from '../../access/projects/projects.ts'
import { defineModule } from '../../module.ts'
import { credentialProviders as contract } from './contract.ts'
import { credentialProviderHandlers } from './handlers.ts'
import { CredentialProviders } from './providers.ts'

export const credentialProviders = defineModule<CredentialProviders>({
  name: 'credential-providers',
  contracts: [contract],
  sealed: [sealedColumn('credential_providers', 'token', { purpose: 'credential-providers' })],
  open(house) {
    const providers = new CredentialProviders({ ...house, assertOrganization })
    house.mount(contract, credentialProviderHandlers(providers))
    return providers
  },
})
