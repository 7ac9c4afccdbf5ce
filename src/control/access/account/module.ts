// The account: who calls, and what this service includes.
import { defineModule } from '../../module.ts'
import { account as contract } from './contract.ts'
import { accountHandlers } from './handlers.ts'

export const account = defineModule({
  name: 'account',
  contracts: [contract],
  open: (house) => house.mount(contract, accountHandlers(house.config)),
})
