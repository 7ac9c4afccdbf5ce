// Handlers of the Proxies contract.
import { known, type Handlers } from '../../../http/route.ts'
import type { proxies as contract } from './contract.ts'
import type { Proxies } from './proxies.ts'

export const proxyHandlers = (proxies: Proxies): Handlers<typeof contract> => ({
  createProxy: ({ principal, body }) => proxies.create(known(principal).project, body),
  listProxies: ({ principal, query }) => proxies.list(known(principal).project, query),
  getProxy: ({ principal, params }) => proxies.get(known(principal).project, params.id_or_name),
  updateProxy: ({ principal, params, body }) => proxies.rename(known(principal).project, params.id_or_name, body.name),
  deleteProxy: ({ principal, params }) => proxies.delete(known(principal).project, params.id_or_name),
  checkProxy: ({ principal, params, body, signal }) => proxies.check(known(principal).project, params.id_or_name, body.url, signal),
})
