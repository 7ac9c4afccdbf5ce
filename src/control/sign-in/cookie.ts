// The cookie of a web session: how it is set, and which requests it counts on.
import type { IncomingHttpHeaders } from 'node:http'
import { cookieNamed, OWN_COOKIES } from '../../http/cookies.ts'

const NAME = `${OWN_COOKIES}session`

/**
 * A page of another origin cannot send this header without asking first, and is not allowed it. Navigations, images and EventSource never carry it: a hostile
 * file that the API serves is not opened with the rights of the person who looks at it.
 */
export const DASHBOARD_HEADER = 'x-cob-dashboard'

/** Whether the script of our own page has made the request. Web browsers add `Sec-Fetch-Site` where the page cannot change it. */
export const isOurPage = (headers: IncomingHttpHeaders): boolean =>
  headers[DASHBOARD_HEADER] === '1' && (headers['sec-fetch-site'] ?? 'same-origin') === 'same-origin'

/** Whether a request has the cookie at all. */
export const hasSessionCookie = (headers: IncomingHttpHeaders): boolean => cookieNamed(headers, NAME) !== undefined

/** The token of a request's web session, on requests on which it counts as a credential. */
export const sessionCookie = (headers: IncomingHttpHeaders): string | undefined => (isOurPage(headers) ? cookieNamed(headers, NAME) : undefined)

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
