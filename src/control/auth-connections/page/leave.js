// Where the page leads when the login is over: `success_url` and `error_url` of its own address, which the integrator has added.

/** Schemes that would run in this page, or show what is not a place. Apps have schemes of their own, so all others are allowed. */
const REFUSED = ['javascript:', 'data:', 'vbscript:', 'blob:', 'file:']

/**
 * Reads `success_url` and `error_url`. `problem` says what is wrong with one of them.
 * @param {URLSearchParams} query
 * @returns {{ success?: string, error?: string, problem?: string }}
 */
export function readWays(query) {
  /** @type {{ success?: string, error?: string, problem?: string }} */
  const ways = {}
  for (const name of ['success', 'error']) {
    const field = `${name}_url`
    const text = query.get(field)
    if (text === null || text === '') continue
    if (!URL.canParse(text)) ways.problem ??= `${field} must be a whole address with its scheme.`
    else if (REFUSED.includes(new URL(text).protocol)) ways.problem ??= `${field} must not begin with ${new URL(text).protocol}`
    // As it was parsed: what was checked is what is opened.
    else ways[name] = new URL(text).href
  }
  return ways
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
