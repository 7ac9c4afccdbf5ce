// Where the page leads when the login is over: `success_url` and `error_url` of its own address, which the integrator has added.

/** Schemes that would run in this page, or show what is not a place. Apps have schemes of their own, so all others are allowed. */
const REFUSED = ['javascript:', 'data:', 'vbscript:', 'blob:', 'file:']

/** A parsed address, or undefined. Phones of three years ago have no `URL.parse` and no `URL.canParse`. */
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
  /** What is wrong with one of them. */
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
    // As it was parsed: what was checked is what is opened.
    else found[name] = url.href
  }
  return found
}

/** An address with more in its query; what is undefined or empty is left out. */
export function withQuery(address: string, values: Record<string, string | null | undefined>): string {
  const url = new URL(address)
  for (const [name, value] of Object.entries(values)) if (value) url.searchParams.set(name, value)
  return url.href
}

/** The place of an address, for people: its host, or the scheme of an app. */
export function placeOf(address: string): string {
  const { host, protocol } = new URL(address)
  return /^https?:$/.test(protocol) ? host : `the app (${protocol.slice(0, -1)})`
}
