// Browser pools: browsers with one configuration, made ahead and lent to callers.
import { sql } from 'kysely'
import { defineModule } from '../../module.ts'
import { pooling } from '../browsers/hooks.ts'
import { browsers } from '../browsers/module.ts'
import { placeOf } from '../browsers/place.ts'
import { makeAcquisitions } from '../browsers/acquisitions.ts'
import { watched } from '../browsers/watched.ts'
import { profiles } from '../profiles/module.ts'
import { replays } from '../replays/module.ts'
import { browserPools as contract } from './contract.ts'
import { browserPoolHandlers } from './handlers.ts'
import { makeBrowserPools, makePoolSource } from './pools.ts'
import { deletedPools } from './purge.ts'
import { poolNames } from './rows.ts'

export const browserPools = defineModule({
  name: 'browser-pools',
  contracts: [contract],
  purges: ({ db, config }) => [deletedPools(db, config.keepEndedDays)],
  holdings: [{ called: 'browser pools', isAtWork: true, table: 'browser_pools', isOver: sql`deleted_at is not null` }],
  open(house) {
    const { db, scope, config, log } = house
    const part = house.of(browsers)
    const settings = {
      ...part,
      db,
      scope,
      log,
      uses: house.of(watched).standby,
      profiles: house.of(profiles),
      place: placeOf(config),
      maxBrowsers: config.maxBrowsers,
    }
    const { stopAll } = house.of(replays)
    const acquisitions = makeAcquisitions({ ...settings, stopRecordings: stopAll })
    house.fill(pooling, { ...makePoolSource(settings), names: (ids) => poolNames(db, ids) })
    house.mount(contract, browserPoolHandlers(makeBrowserPools({ ...settings, acquisitions })))
  },
})
