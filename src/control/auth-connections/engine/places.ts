// Addresses and options that follow from a connection: where its login form may be, what its browsers are, who may answer.
import type { BrowserWish } from './browser.ts'
import { allowedHosts, isAllowedHost } from './hosts.ts'
import { LOGIN_PATHS } from './ways.ts'
import type { Connection, Flow } from './work.ts'

/** The start page of the site: where its login page is, when that is on the same domain. */
export function homeOf({ domain, login_url: loginUrl }: Pick<Connection, 'domain' | 'login_url'>): string {
  const own = allowedHosts({ domain, allowedDomains: [], hasChosenSso: false })
  const url = loginUrl !== null && URL.canParse(loginUrl) ? new URL(loginUrl) : undefined
  return url && isAllowedHost(url.hostname, own) ? `${url.origin}/` : `https://${domain}/`
}

/** Where the form may be, in order: the login page, the start page, addresses that many sites have. */
export function candidatesOf(connection: Pick<Connection, 'domain' | 'login_url'>): string[] {
  const home = homeOf(connection)
  const first = connection.login_url === null ? [] : [connection.login_url]
  return [...new Set([...first, home, ...LOGIN_PATHS.map((path) => new URL(path, home).href)])]
}

/** A re-login in the background has no code for a hosted page: nobody was told of it. */
export const isAttended = ({ type, code_hash: code }: Pick<Flow, 'type' | 'code_hash'>): boolean => type === 'login' || (type === 'reauth' && code !== null)

/** What this login says comes before what its connection says. */
export function wishOf({ id, asked, type }: Flow, connection: Connection): BrowserWish {
  const mode = asked.browser?.proxy_mode ?? (asked.proxy_id === undefined ? connection.browser.proxy_mode : undefined)
  const proxy = asked.proxy_id === undefined ? connection.proxy_id : asked.proxy_id
  return {
    project: connection.project_id,
    profileId: connection.profile_id,
    flowId: id,
    proxyId: mode === undefined ? (proxy ?? undefined) : undefined,
    stealth: asked.browser?.stealth ?? connection.browser.stealth,
    telemetry: asked.browser?.telemetry ?? connection.browser.telemetry,
    record: type !== 'health_check' && (asked.record_session ?? connection.record_session),
  }
}
