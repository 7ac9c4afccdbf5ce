// Which web pages may speak MCP: those of the service itself. Other clients send no Origin.
import { isIP } from 'node:net'
import { fault } from '../../../http/fault.ts'

/**
 * Refuses the request of a page of another origin. `own` is where the service is, as the operator has set it (`isSet`), or as the request itself says.
 * A page can have its own name lead to this machine (DNS rebinding), and is then at the origin that it calls: so a name counts only when the operator
 * has set it. Addresses and localhost lead nowhere else.
 * @throws 403
 */
export function assertOwnOrigin(origin: string | undefined, own: string, isSet: boolean): void {
  if (origin === undefined || (origin === own && (isSet || isFixed(new URL(own).hostname)))) return
  throw fault.forbidden(
    `requests of pages at ${JSON.stringify(origin.slice(0, 100))} are refused: only pages of this service may send them (COB_PUBLIC_URL says where it is)`,
  )
}

const isFixed = (hostname: string): boolean => hostname === 'localhost' || hostname.endsWith('.localhost') || isIP(hostname.replaceAll(/^\[|\]$/g, '')) !== 0
