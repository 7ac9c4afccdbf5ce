// Apps: the versions that deployments release.
import { defineModule } from '../../module.ts'
import { apps as contract } from './contract.ts'
import { appHandlers } from './handlers.ts'

export const apps = defineModule({
  name: 'apps',
  contracts: [contract],
  open: (house) => house.mount(contract, appHandlers(house.db)),
})
