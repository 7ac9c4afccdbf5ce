// The addresses to which the page returns after the login: `success_url` and `error_url` of its own address, which the integrator adds.

/** Schemes that would run in this page, or that show no place on the web. All others are allowed, because apps have their own schemes. */
const REFUSED = ['javascript:', 'data:', 'vbscript:', 'blob:', 'file:']

/** Parses an address; undefined when it is invalid. Phones of three years ago lack `URL.parse` and `URL.canParse`. */
export function parsed(text: string, base?: string): URL | undefined {
  try {
    return new URL(text, base)
  } catch {
    return undefined
  }
}

export interface ReturnUrls {
  success?: string
  error?: string
  /** The problem of one of them. */
  problem?: string
}

export function readReturnUrls(query: URLSearchParams): ReturnUrls {
  const found: ReturnUrls = {}
  for (const name of ['success', 'error'] as const) {
    const field = `${name}_url`
    const text = query.get(field)
    if (text === null || text === '') continue
    const url = parsed(text)
    if (!url) found.problem ??= `${field} must be a whole address with its scheme.`
    else if (REFUSED.includes(url.protocol)) found.problem ??= `${field} must not begin with ${url.protocol}`
    // Open the parsed address, because that is what was checked.
    else found[name] = url.href
  }
  return found
}

/** Adds values to the query of an address. Undefined and empty values are left out. */
export function withQuery(address: string, values: Record<string, string | null | undefined>): string {
  const url = new URL(address)
  for (const [name, value] of Object.entries(values)) if (value) url.searchParams.set(name, value)
  return url.href
}

/** The target of an address in words: its host, or the scheme of an app. */
export function placeOf(address: string): string {
  const { host, protocol } = new URL(address)
  return /^https?:$/.test(protocol) ? host : `the app (${protocol.slice(0, -1)})`
}
