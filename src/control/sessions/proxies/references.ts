// The proxies in a browser's options, and the routing of its traffic that follows from them.
import type { Naming } from '../browsers/options/look-up.ts'
import type { Upstream } from '../../../egress/upstream.ts'
import type { Routing } from '../../../egress/routing.ts'
import { fault } from '../../../http/fault.ts'
import { isForwarded, type Network } from '../network/contract.ts'
import type { Proxies } from './proxies.ts'
import type { TimeZoneAt } from './time-zones.ts'
import { Unusable } from './upstream.ts'

type IdOf = Pick<Proxies, 'idOf'>

/** Replaces `proxy` by `proxy_id` (empty for none), and names in routes by ids. A named proxy exists at that time. */
export const proxyNaming = (proxies: IdOf) =>
  async function nameProxy<T extends Naming>(project: string, given: T): Promise<T> {
    return withRoutes(proxies, project, await withProxy(proxies, project, given))
  }

async function withProxy<T extends Naming>({ idOf }: IdOf, project: string, given: T): Promise<T> {
  const { proxy, proxy_id, ...rest } = given
  if (proxy === undefined) return proxy_id ? { ...given, proxy_id: await idOf(project, { id: proxy_id }, 'proxy_id') } : given
  const { id, name } = proxy
  if (id !== undefined) return { ...(rest as T), proxy_id: await idOf(project, { id }, 'proxy.id') }
  return { ...(rest as T), proxy_id: name === undefined ? '' : await idOf(project, { name }, 'proxy.name') }
}

async function withRoutes<T extends Naming>({ idOf }: IdOf, project: string, given: T): Promise<T> {
  const routes = given.network && 'proxy_routes' in given.network ? given.network.proxy_routes : undefined
  if (!routes) return given
  const resolved = await Promise.all(
    routes.map(async ({ hosts, proxy: { id, name } }, at) => {
      const field = `network.proxy_routes.${at}.proxy`
      return { hosts, proxy: { id: await (id === undefined ? idOf(project, { name: name! }, `${field}.name`) : idOf(project, { id }, `${field}.id`)) } }
    }),
  )
  return { ...given, network: { ...given.network, proxy_routes: resolved } }
}

interface Row {
  project_id: string | null
  options: { proxy_id?: string | undefined; network?: Network | undefined }
}

/** The routing of a session by its row; undefined when its browser connects directly. @throws 400 with the reason why a proxy cannot be used */
export const routingOfSession =
  ({ upstream }: Pick<Proxies, 'upstream'>) =>
  async ({ project_id: project, options: { proxy_id, network } }: Row): Promise<Routing | undefined> => {
    if (!proxy_id && !isForwarded(network)) return undefined
    const found = async (id: string, field: string): Promise<Upstream> => {
      try {
        return await upstream(project!, id)
      } catch (error) {
        throw error instanceof Unusable ? fault.field(field, error.message) : error
      }
    }
    return {
      ...(proxy_id && { upstream: await found(proxy_id, 'proxy_id') }),
      routes: await Promise.all(
        (network?.proxy_routes ?? []).map(async ({ hosts, proxy }, at) => ({ hosts, upstream: await found(proxy.id, `network.proxy_routes.${at}.proxy`) })),
      ),
      ...(network?.allowed_hosts && { allowedHosts: network.allowed_hosts }),
      ...(network?.private_hosts && { privateHosts: network.private_hosts }),
    }
  }

/** The time zone at the proxy of a session, by its row; undefined when it is not known. */
export const timeZoneOfSession =
  ({ exitOf }: Pick<Proxies, 'exitOf'>, at: TimeZoneAt) =>
  async ({ project_id, options: { proxy_id } }: Row, signal: AbortSignal): Promise<string | undefined> => {
    const ip = proxy_id ? await exitOf(project_id!, proxy_id, signal) : undefined
    return ip === undefined ? undefined : at(ip)
  }
