// Members: people, and their roles.
import { defineModule } from '../../module.ts'
import { apiKeys } from '../api-keys/module.ts'
import { members as contract } from './contract.ts'
import { memberHandlers } from './handlers.ts'

export const members = defineModule({
  name: 'members',
  contracts: [contract],
  open(house) {
    house.mount(contract, memberHandlers(house.db, house.of(apiKeys).rights, house.config.oidc?.issuer))
  },
})
