// The cookie of a web session: how it is set, and on which requests it is valid.
import type { IncomingHttpHeaders } from 'node:http'
import { cookieNamed, OWN_COOKIES } from '../../../http/cookies.ts'

const NAME = `${OWN_COOKIES}session`

/**
 * A page of another origin needs a CORS preflight for this header, and does not get it. Navigations, images and EventSource never send it: so a hostile file
 * that the API serves is not opened with the rights of the person who views it.
 */
export const DASHBOARD_HEADER = 'x-cob-dashboard'

const hostIn = (url: string | undefined): string | undefined => (url !== undefined && URL.canParse(url) ? new URL(url).host : undefined)

/**
 * Whether the headers say that a page of another origin has sent the request. Web browsers set these headers, and pages cannot change them: `Sec-Fetch-Site`;
 * if that is missing (plain HTTP to another machine), `Origin`, or `Referer` of a GET. `own`: the origin at which the caller reached the service, perhaps
 * through a proxy.
 */
export function isFromElsewhere(headers: IncomingHttpHeaders, own: string): boolean {
  if ((headers['sec-fetch-site'] ?? 'same-origin') !== 'same-origin') return true
  const page = headers.origin ?? headers.referer
  if (page === undefined) return false
  const host = hostIn(page)
  return host === undefined || ![hostIn(own), hostIn(`http://${headers.host}`)].includes(host)
}

/** Whether the script of our own page has made the request. */
const isOurPage = (headers: IncomingHttpHeaders, own: string): boolean => headers[DASHBOARD_HEADER] === '1' && !isFromElsewhere(headers, own)

/** Whether a request has the cookie, valid or not. */
export const hasSessionCookie = (headers: IncomingHttpHeaders): boolean => cookieNamed(headers, NAME) !== undefined

/** The token of a request's web session, if the cookie is a valid credential on this request. */
export const sessionCookie = (headers: IncomingHttpHeaders, own: string): string | undefined =>
  isOurPage(headers, own) ? cookieNamed(headers, NAME) : undefined

interface CookieSettings {
  maxAgeSeconds: number
  /** The origin at which the web browser reaches the service: with TLS, the cookie is never sent without it. */
  origin: string
  path?: string
  /** `Lax`: also sent when another site redirects back. */
  sameSite?: 'Strict' | 'Lax'
}

/** The value of a `Set-Cookie` header. */
export const setCookie = (name: string, value: string, { maxAgeSeconds, origin, path = '/', sameSite = 'Strict' }: CookieSettings): string =>
  `${name}=${value}; Path=${path}; Max-Age=${Math.max(0, Math.floor(maxAgeSeconds))}; HttpOnly; SameSite=${sameSite}${origin.startsWith('https:') ? '; Secure' : ''}`

export const setSession = (token: string, maxAgeSeconds: number, origin: string): string => setCookie(NAME, token, { maxAgeSeconds, origin })

/** The header that removes the cookie. */
export const clearSession = (origin: string): string => setSession('', 0, origin)
