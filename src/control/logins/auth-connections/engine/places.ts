// Addresses and options that follow from a connection: where its login form may be, its browser options, and whether a person can answer.
import { browserOf } from '../wanted-browser.ts'
import type { BrowserWish } from './browser.ts'
import { allowedHosts, isAllowedHost } from './hosts.ts'
import { LOGIN_PATHS } from './login-links.ts'
import type { Connection, Flow } from './work.ts'

/** The start page of the site: that of the login page's host if it is on the same domain. */
export function homeOf({ domain, login_url: loginUrl }: Pick<Connection, 'domain' | 'login_url'>): string {
  const own = allowedHosts({ domain, allowedDomains: [], sso: '' })
  const url = loginUrl !== null && URL.canParse(loginUrl) ? new URL(loginUrl) : undefined
  return url && isAllowedHost(url.hostname, own) ? `${url.origin}/` : `https://${domain}/`
}

/** Addresses where the form may be, in order: the login page, the start page, addresses that many sites have. */
export function candidatesOf(connection: Pick<Connection, 'domain' | 'login_url'>): string[] {
  const home = homeOf(connection)
  const first = connection.login_url === null ? [] : [connection.login_url]
  return [...new Set([...first, home, ...LOGIN_PATHS.map((path) => new URL(path, home).href)])]
}

/** Whether a person can answer. A re-login in the background has no code for a hosted page: nobody was told of it. */
export const isAttended = ({ type, code_hash: code }: Pick<Flow, 'type' | 'code_hash'>): boolean => type === 'login' || (type === 'reauth' && code !== null)

export const wishOf = (flow: Flow, connection: Connection): BrowserWish => ({
  project: connection.project_id,
  profileId: connection.profile_id,
  flowId: flow.id,
  ...browserOf(connection, flow),
})
