// Members: people, and their roles.
import { defineModule } from '../../module.ts'
import { apiKeys } from '../api-keys/module.ts'
import { members as contract } from './contract.ts'
import { memberHandlers } from './handlers.ts'
import { Members } from './members.ts'

export const members = defineModule({
  name: 'members',
  contracts: [contract],
  open(house) {
    const { db, config } = house
    house.mount(contract, memberHandlers(new Members({ db, rights: house.of(apiKeys).rights, issuer: config.oidc?.issuer })))
  },
})
