// The account: the caller, and the features of this service.
import { defineModule } from '../../module.ts'
import { account as contract } from './contract.ts'
import { accountHandlers } from './handlers.ts'

export const account = defineModule({
  name: 'account',
  contracts: [contract],
  open: (house) => house.mount(contract, accountHandlers(house.config)),
})
