// The data of `proxy_error` events: the reason why the session's proxy did not reach a site.
import { PROXY_ERROR_HEADER } from '../../../../base/proxy-probe.ts'
import { PROXY_CODE } from '../../limits.ts'

const CODES = new Set([
  'destination_blocked',
  'destination_route_unavailable',
  'network_policy_denied',
  'provider_blacklisted',
  'provider_unreachable',
  'provider_rejected',
  'origin_tls_timeout',
  'origin_response_incomplete',
  'proxy_unavailable',
  'restricted_route_unavailable',
  'upstream_timeout',
  'upstream_dns_failure',
  'upstream_connect_failed',
])
/** The codes of our own proxy (egress/upstream-error.ts, agent/egress/listener.ts). */
const OWN: Record<string, string> = { unreachable: 'provider_unreachable', credentials: 'provider_rejected', refused: 'upstream_connect_failed' }

const HEADER = PROXY_ERROR_HEADER.toLowerCase()
/** Statuses of the proxy's own answers. */
const STATUSES = new Set([502, 403])

export interface ProxyError {
  code: string
  raw_code?: string
  status: number
}

/** The proxy's own error; undefined when the answer comes from a site. */
export function proxyErrorOf(status: number, headers: Record<string, unknown>): ProxyError | undefined {
  if (!STATUSES.has(status)) return undefined
  const name = Object.keys(headers).find((key) => key.length === HEADER.length && key.toLowerCase() === HEADER)
  return name === undefined ? undefined : { ...named(String(headers[name])), status }
}

/**
 * Chromium's error when a proxy opens no connection, as for https sites. It does not contain the proxy's answer; ours answers 502 to everything except a host
 * that is not allowed.
 */
export function proxyErrorOfFailure(errorText: string): ProxyError | undefined {
  const [, name] = /^net::(ERR_(?:\w*PROX\w*|TUNNEL_\w+|SOCKS_\w+))$/.exec(errorText.slice(0, 128)) ?? []
  if (name === undefined) return undefined
  return { ...(name === 'ERR_PROXY_CONNECTION_FAILED' ? { code: 'proxy_unavailable' } : named(name)), status: 502 }
}

function named(value: string): Pick<ProxyError, 'code' | 'raw_code'> {
  const raw = value
    .slice(0, 1024)
    .trim()
    .toLowerCase()
    .replaceAll(/[^a-z\d_]/g, '_')
    .slice(0, PROXY_CODE)
  const code = OWN[raw] ?? raw
  return CODES.has(code) ? { code } : { code: 'unknown', raw_code: raw }
}
