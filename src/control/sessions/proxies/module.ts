// Proxies: stored, checked, and named by the options of browsers.
import { sql } from 'kysely'
import { makeSealer } from '../../../base/sealed.ts'
import { sealedColumn } from '../../../store/sealed-columns.ts'
import { defineModule } from '../../module.ts'
import { proxies as contract } from './contract.ts'
import { proxyHandlers } from './handlers.ts'
import { makeProxies, type Proxies } from './proxies.ts'
import { deletedProxies } from './purge.ts'

export const proxies = defineModule<Proxies>({
  name: 'proxies',
  contracts: [contract],
  sealed: [sealedColumn('proxies', 'secrets', { purpose: 'proxies' })],
  purges: ({ db, config }) => [deletedProxies(db, config.keepEndedDays)],
  holdings: [{ called: 'proxies', isAtWork: false, table: 'proxies', isOver: sql`deleted_at is not null` }],
  open(house) {
    const { db, keys, config, log } = house
    const proxies = makeProxies({ db, sealer: makeSealer(keys, 'proxies'), provided: config.proxies, reach: config, checkUrl: config.proxyCheckUrl, log })
    house.mount(contract, proxyHandlers(proxies))
    return proxies
  },
})
