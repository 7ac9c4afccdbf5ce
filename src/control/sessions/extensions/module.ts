// Extensions: callers upload them, and sessions load them.
import { defineModule } from '../../module.ts'
import { chromeStore } from './chrome-store.ts'
import { extensions as contract } from './contract.ts'
import { makeExtensions, type Extensions } from './extensions.ts'
import { extensionHandlers } from './handlers.ts'
import { extensionObjects } from './rows.ts'

export const extensions = defineModule<Extensions>({
  name: 'extensions',
  contracts: [contract],
  objects: [extensionObjects],
  holdings: [{ called: 'extensions', isAtWork: false, table: 'extensions' }],
  open(house) {
    const extensions = makeExtensions(house)
    house.mount(contract, extensionHandlers(extensions, chromeStore(house.config.chromeStoreUrl)))
    return extensions
  },
})
