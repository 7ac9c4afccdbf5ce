// Limits on connections that follow from the settings and from this machine.
import type { AnonymousLimits } from '../../base/anonymous.ts'
import type { Config } from '../../base/config.ts'
import { connectionsFor, descriptorLimit } from '../../http/connections.ts'

/**
 * Single addresses may reach their limit before the total is reached. Behind a reverse proxy, all callers have one address. Half of all connections are
 * reserved for callers with a credential.
 */
export function anonymousLimits({ maxAnonymousConnections: wanted, maxBrowsers, maxInvocations }: Config): AnonymousLimits {
  const room = connectionsFor(descriptorLimit(), maxBrowsers + maxInvocations)
  return { perAddress: Math.max(1, Math.min(wanted, Math.floor(room / 4))), total: Math.max(1, Math.min(4 * wanted, Math.floor(room / 2))) }
}
