// API keys: the service's own, those of callers, and the rights of both.
import { dataPaths } from '../../../base/paths.ts'
import { defineModule } from '../../module.ts'
import { keyChecker, ownKey, type CheckKey, type OwnKey } from '../keys.ts'
import { watchKeys } from '../revocations.ts'
import { Rights } from '../rights.ts'
import { ApiKeys } from './api-keys.ts'
import { apiKeys as contract } from './contract.ts'
import { apiKeyHandlers } from './handlers.ts'

interface KeyParts {
  /** The service's own key. */
  own: OwnKey
  rights: Rights
  checkKey: CheckKey
  /** Ends requests whose key or role has ended. */
  guard: ReturnType<typeof watchKeys>['guard']
}

export const apiKeys = defineModule<KeyParts>({
  name: 'api-keys',
  contracts: [contract],
  async open(house) {
    const { db, log, notifier, scope, config } = house
    const own = await ownKey(db, scope, config.apiKey, dataPaths(config.dataDir).apiKey)
    const rights = house.use(new Rights(db, log, notifier))
    house.mount(contract, apiKeyHandlers(new ApiKeys(db, rights)))
    return { own, rights, checkKey: keyChecker(db, rights), guard: house.use(watchKeys(db, log)).guard }
  },
})
