// The cookie of a web session: how it is set, and which requests it counts on.
import type { IncomingHttpHeaders } from 'node:http'
import { cookieNamed, OWN_COOKIES } from '../../../http/cookies.ts'

const NAME = `${OWN_COOKIES}session`

/**
 * A page of another origin cannot send this header without asking first, and is not allowed it. Navigations, images and EventSource never carry it: a hostile
 * file that the API serves is not opened with the rights of the person who looks at it.
 */
export const DASHBOARD_HEADER = 'x-cob-dashboard'

const hostIn = (url: string | undefined): string | undefined => (url !== undefined && URL.canParse(url) ? new URL(url).host : undefined)

/**
 * Whether a request comes from a page elsewhere, as far as its headers say. Web browsers write these, and no page can change them: `Sec-Fetch-Site`, and where there is none (over plain HTTP to
 * another machine), `Origin`, or `Referer` with a GET. `own`: the origin by which the caller reached the service, which a proxy may have told it.
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

/** Whether a request has the cookie at all. */
export const hasSessionCookie = (headers: IncomingHttpHeaders): boolean => cookieNamed(headers, NAME) !== undefined

/** The token of a request's web session, on requests on which it counts as a credential. */
export const sessionCookie = (headers: IncomingHttpHeaders, own: string): string | undefined =>
  isOurPage(headers, own) ? cookieNamed(headers, NAME) : undefined

interface CookieSettings {
  maxAgeSeconds: number
  /** By which the web browser reaches the service: over TLS the cookie is never sent without. */
  origin: string
  path?: string
  /** `Lax`: also on the way back from another site. */
  sameSite?: 'Strict' | 'Lax'
}

/** A `Set-Cookie` header. */
export const setCookie = (name: string, value: string, { maxAgeSeconds, origin, path = '/', sameSite = 'Strict' }: CookieSettings): string =>
  `${name}=${value}; Path=${path}; Max-Age=${Math.max(0, Math.floor(maxAgeSeconds))}; HttpOnly; SameSite=${sameSite}${origin.startsWith('https:') ? '; Secure' : ''}`

export const setSession = (token: string, maxAgeSeconds: number, origin: string): string => setCookie(NAME, token, { maxAgeSeconds, origin })

/** Makes web browsers forget the cookie. */
export const clearSession = (origin: string): string => setSession('', 0, origin)
