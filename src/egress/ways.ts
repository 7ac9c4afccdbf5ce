// What a session may reach, and by which way: through its proxy, through another one for certain hosts, directly, or not at all.
import { isListed } from '../base/hosts.ts'
import type { Upstream } from './upstream.ts'

/** The ways of one session. */
export interface Ways {
  /** The proxy for hosts that no route names. Absent: they are reached directly. */
  upstream?: Upstream
  /** Other proxies for certain hosts: names, and `*.example.com` for every name below it. */
  routes: { hosts: string[]; upstream: Upstream }[]
  /** The only hosts that may be reached: names and patterns as in routes, addresses, subnets. Absent: all. */
  allowedHosts?: string[]
  /** Hosts, in Chromium's form for exceptions, that the browser connects to without the forwarder. */
  privateHosts?: string[]
}

/** The way to one host. */
export type Way = Upstream | 'direct' | 'denied'

/** The way to a host: a name, or an address without brackets. */
export function wayTo(host: string, { upstream, routes, allowedHosts }: Ways): Way {
  if (allowedHosts && !isListed(host, allowedHosts)) return 'denied'
  const taken = bestRoute(host, routes)?.upstream ?? upstream
  return !taken || isListed(host, taken.bypassHosts) ? 'direct' : taken
}

/** A name beats a pattern, and a longer pattern a shorter one. */
function bestRoute(host: string, routes: Ways['routes']): Ways['routes'][number] | undefined {
  let best: { route: Ways['routes'][number]; length: number } | undefined
  for (const route of routes)
    for (const entry of route.hosts) {
      const length = entry.startsWith('*.') ? entry.length : Infinity
      if ((!best || length > best.length) && isListed(host, [entry])) best = { route, length }
    }
  return best?.route
}
