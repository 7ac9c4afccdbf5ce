// Handlers of the Browser Pools contract.
import { known, type Handlers } from '../../../http/route.ts'
import type { browserPools as contract } from './contract.ts'
import type { BrowserPools } from './pools.ts'

export const browserPoolHandlers = (pools: BrowserPools): Handlers<typeof contract> => ({
  createBrowserPool: ({ principal, body, signal }) => pools.create(known(principal).project, body, signal),
  listBrowserPools: ({ principal, query }) => pools.list(known(principal).project, query),
  getBrowserPool: ({ principal, params }) => pools.get(known(principal).project, params.id_or_name),
  updateBrowserPool: ({ principal, params, body, signal }) => pools.update(known(principal).project, params.id_or_name, body, signal),
  deleteBrowserPool: ({ principal, params, body }) => pools.delete(known(principal).project, params.id_or_name, body.force),
  acquireBrowser: ({ principal, params, body, origin, signal }) => pools.acquire(known(principal).project, params.id_or_name, body, origin, signal),
  releaseBrowser: ({ principal, params, body }) => pools.release(known(principal).project, params.id_or_name, body.session_id, body.reuse),
  flushBrowserPool: ({ principal, params }) => pools.flush(known(principal).project, params.id_or_name),
})
