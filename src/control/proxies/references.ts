// The proxy that a browser's options name.
import type { Naming } from '../browsers/options/look-up.ts'
import type { Upstream } from '../../egress/upstream.ts'
import { fault } from '../../http/fault.ts'
import type { Proxies } from './proxies.ts'
import { Unusable } from './upstream.ts'

/** Puts `proxy_id` in place of `proxy`; empty means none. A proxy that is named exists then. */
export const proxyNaming = ({ idOf }: Pick<Proxies, 'idOf'>) =>
  async function nameProxy<T extends Naming>(project: string, given: T): Promise<T> {
    const { proxy, proxy_id, ...rest } = given
    if (proxy === undefined) return proxy_id ? { ...given, proxy_id: await idOf(project, { id: proxy_id }, 'proxy_id') } : given
    const { id, name } = proxy
    if (id !== undefined) return { ...(rest as T), proxy_id: await idOf(project, { id }, 'proxy.id') }
    return { ...(rest as T), proxy_id: name === undefined ? '' : await idOf(project, { name }, 'proxy.name') }
  }

/** The server that a session's row names; undefined when it names none. @throws 400 that says why it cannot be used */
export const upstreamOfSession =
  ({ upstream }: Pick<Proxies, 'upstream'>) =>
  async ({ project_id, options: { proxy_id } }: { project_id: string | null; options: { proxy_id?: string | undefined } }): Promise<Upstream | undefined> => {
    if (!proxy_id) return undefined
    try {
      return await upstream(project_id!, proxy_id)
    } catch (error) {
      throw error instanceof Unusable ? fault.field('proxy_id', error.message) : error
    }
  }
