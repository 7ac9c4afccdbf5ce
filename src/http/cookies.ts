// Cookies of this service: read from requests, and kept away from other sites.
import type { IncomingHttpHeaders } from 'node:http'

/** The names of all cookies of this service begin with it. */
export const OWN_COOKIES = 'cob_'

const pairsOf = (headers: IncomingHttpHeaders): string[] => (headers.cookie ?? '').split(';').map((pair) => pair.trim())

/** The value of the first cookie of a name. */
export function cookieNamed(headers: IncomingHttpHeaders, name: string): string | undefined {
  return pairsOf(headers)
    .find((pair) => pair.startsWith(`${name}=`))
    ?.slice(name.length + 1)
}

/** The headers of a request for another site: without the cookies of this service, which a web browser adds by itself. */
export function withoutOwnCookies(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  if (!headers.cookie?.includes(OWN_COOKIES)) return headers
  const { cookie: _, ...rest } = headers
  const others = pairsOf(headers).filter((pair) => !pair.startsWith(OWN_COOKIES))
  return others.length === 0 ? rest : { ...rest, cookie: others.join('; ') }
}
