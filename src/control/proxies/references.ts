// The proxy that a browser's options name.
import { fault } from '../../http/fault.ts'
import type { Naming, Resolve } from '../browsers/options/references.ts'
import type { Proxies } from './proxies.ts'

/** Puts `proxy_id` in place of `proxy`; empty means none. A proxy that is named exists then. */
export const resolveProxy = ({ idOf }: Pick<Proxies, 'idOf'>): Resolve =>
  async function resolve<T extends Naming>(project: string, given: T): Promise<T> {
    const { proxy, proxy_id, ...rest } = given
    if (proxy === undefined) return proxy_id ? { ...given, proxy_id: await idOf(project, { id: proxy_id }, 'proxy_id') } : given
    const { id, name } = proxy
    if (id !== undefined) return { ...(rest as T), proxy_id: await idOf(project, { id }, 'proxy.id') }
    return { ...(rest as T), proxy_id: name === undefined ? '' : await idOf(project, { name }, 'proxy.name') }
  }

/** Refuses what would need the way out through a proxy, which is not built: what a session asks for is never ignored. */
export const refuseProxies = (resolve: Resolve): Resolve =>
  async function refuse<T extends Naming>(project: string, given: T): Promise<T> {
    const resolved = await resolve(project, given)
    if (resolved.proxy_id)
      throw fault.field(given.proxy === undefined ? 'proxy_id' : 'proxy', 'browsers that use a proxy are not built yet in this version of Cob')
    return resolved
  }
