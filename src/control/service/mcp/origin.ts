// Which web pages may use MCP: only those of the service itself. Other clients send no Origin.
import { isIP } from 'node:net'
import { fault } from '../../../http/fault.ts'

/**
 * Refuses the request of a page of another origin. `own` is the origin of the service, set by the operator (`isSet`), or taken from the request.
 * A page can make its own name point to this machine (DNS rebinding), and then its origin equals the one that it calls: so a name is accepted only if the
 * operator has set it. IP addresses and localhost cannot be redirected in this way.
 * @throws 403
 */
export function assertOwnOrigin(origin: string | undefined, own: string, isSet: boolean): void {
  if (origin === undefined || (origin === own && (isSet || isFixed(new URL(own).hostname)))) return
  throw fault.forbidden(
    `requests of pages at ${JSON.stringify(origin.slice(0, 100))} are refused: only pages of this service may send them (COB_PUBLIC_URL says where it is)`,
  )
}

const isFixed = (hostname: string): boolean => hostname === 'localhost' || hostname.endsWith('.localhost') || isIP(hostname.replaceAll(/^\[|\]$/g, '')) !== 0
