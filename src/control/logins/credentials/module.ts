// Credentials: stored values for logins.
import { makeSealer } from '../../../base/sealed.ts'
import { sealedColumn } from '../../../store/sealed-columns.ts'
import { defineModule } from '../../module.ts'
import { credentials as contract } from './contract.ts'
import { Credentials, purposeOf } from './credentials.ts'
import { credentialHandlers } from './handlers.ts'

export const credentials = defineModule<Credentials>({
  name: 'credentials',
  contracts: [contract],
  sealed: [sealedColumn('credentials', 'sealed', { purpose: { column: 'project_id', of: purposeOf } })],
  holdings: [{ called: 'credentials', isAtWork: false, table: 'credentials' }],
  open(house) {
    const credentials = new Credentials({ db: house.db, sealerOf: (project) => makeSealer(house.keys, purposeOf(project)) })
    house.mount(contract, credentialHandlers(credentials))
    return credentials
  },
})
