// Where the page leads when the login is over: `success_url` and `error_url` of its own address, which the integrator has added.

/** Schemes that would run in this page, or show what is not a place. Apps have schemes of their own, so all others are allowed. */
const REFUSED = ['javascript:', 'data:', 'vbscript:', 'blob:', 'file:']

/** A parsed address, or undefined. Phones of three years ago have no `URL.parse` and no `URL.canParse`. */
export function parsed(text, base) {
  try {
    return new URL(text, base)
  } catch {
    return undefined
  }
}

/**
 * Reads `success_url` and `error_url`. `problem` says what is wrong with one of them.
 * @param {URLSearchParams} query
 * @returns {{ success?: string, error?: string, problem?: string }}
 */
export function readReturnUrls(query) {
  /** @type {{ success?: string, error?: string, problem?: string }} */
  const returnUrls = {}
  for (const name of ['success', 'error']) {
    const field = `${name}_url`
    const text = query.get(field)
    if (text === null || text === '') continue
    const url = parsed(text)
    if (!url) returnUrls.problem ??= `${field} must be a whole address with its scheme.`
    else if (REFUSED.includes(url.protocol)) returnUrls.problem ??= `${field} must not begin with ${url.protocol}`
    // As it was parsed: what was checked is what is opened.
    else returnUrls[name] = url.href
  }
  return returnUrls
}

/** An address with more in its query; what is undefined or empty is left out. */
export function withQuery(address, values) {
  const url = new URL(address)
  for (const [name, value] of Object.entries(values)) if (value) url.searchParams.set(name, value)
  return url.href
}

/** The place of an address, for people: its host, or the scheme of an app. */
export function placeOf(address) {
  const { host, protocol } = new URL(address)
  return /^https?:$/.test(protocol) ? host : `the app (${protocol.slice(0, -1)})`
}
