// What a session may reach, and by which route: through its proxy, through another one for certain hosts, directly, or not at all.
import { isListed } from '../base/hosts.ts'
import type { Upstream } from './upstream.ts'

/** The routing of one session. */
export interface Routing {
  /** The proxy for hosts that no route names. Absent: they are reached directly. */
  upstream?: Upstream
  /** Other proxies for certain hosts: names, and `*.example.com` for every name below it. */
  routes: { hosts: string[]; upstream: Upstream }[]
  /** The only hosts that may be reached: names and patterns as in routes, addresses, subnets. Absent: all. */
  allowedHosts?: string[]
  /** Hosts, in Chromium's form for exceptions, that the browser connects to without the forwarder. */
  privateHosts?: string[]
}

/** The route to one host. */
export type Route = Upstream | 'direct' | 'denied'

/** The route to a host: a name, or an address without brackets. */
export function routeTo(host: string, { upstream, routes, allowedHosts }: Routing): Route {
  if (allowedHosts && !isListed(host, allowedHosts)) return 'denied'
  const taken = bestMatch(host, routes)?.upstream ?? upstream
  return !taken || isListed(host, taken.bypassHosts) ? 'direct' : taken
}

/** A name beats a pattern, and a longer pattern a shorter one. */
function bestMatch(host: string, routes: Routing['routes']): Routing['routes'][number] | undefined {
  let best: { route: Routing['routes'][number]; length: number } | undefined
  for (const route of routes)
    for (const entry of route.hosts) {
      const length = entry.startsWith('*.') ? entry.length : Infinity
      if ((!best || length > best.length) && isListed(host, [entry])) best = { route, length }
    }
  return best?.route
}
