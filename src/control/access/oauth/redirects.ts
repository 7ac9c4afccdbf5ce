// Addresses to which codes may be sent: valid ones for a registration, and those that a request may then name.

const MAX_URI = 1_000
/**
 * An installed program registers its own scheme: a domain name in reverse order, with the top-level domain first (RFC 8252, 7.1). The schemes by which
 * operating systems start their own programs do not have this form.
 */
const OWN_SCHEME = /^[a-z]{2,}(\.[a-z0-9+-]+)+:\//i
/** Schemes without a dot, of programs that ask for access to MCP servers; their makers document them. */
const KNOWN_SCHEMES = ['cursor', 'vscode', 'vscode-insiders', 'windsurf', 'claude', 'zed']
const KNOWN_SCHEME = new RegExp(`^(${KNOWN_SCHEMES.join('|')})://`, 'i')
const LOOPBACK = new Set(['localhost', '127.0.0.1', '[::1]'])

const isLoopback = ({ protocol, hostname }: URL): boolean => protocol === 'http:' && LOOPBACK.has(hostname)

/** The problem of an address that a client wants to register; undefined when there is none. */
export function redirectProblem(uri: string): string | undefined {
  if (uri.length > MAX_URI || !/^[\x21-\x7e]+$/.test(uri) || !URL.canParse(uri)) return 'must be an address without spaces, of at most 1000 characters'
  const url = new URL(uri)
  if (uri.includes('#')) return 'must not have a fragment'
  if (url.username || url.password) return 'must not have a user or password'
  if (url.protocol === 'https:' || isLoopback(url)) return undefined
  if (url.protocol === 'http:') return 'must be https, or http to localhost, 127.0.0.1 or [::1]'
  if (OWN_SCHEME.test(uri) || KNOWN_SCHEME.test(uri)) return undefined
  return `must be https, http to this computer, a scheme with a dot (com.example.app:/callback), or one of ${KNOWN_SCHEMES.join('://, ')}://`
}

/** Whether a request may name this address. Programs listen on any free port, so the port of a loopback address is ignored (RFC 8252, 7.3). */
export function mayRedirect(registered: readonly string[], uri: string): boolean {
  if (redirectProblem(uri) !== undefined) return false
  const portless = (text: string) => {
    const url = new URL(text)
    if (isLoopback(url)) url.port = ''
    return isLoopback(url) ? url.href : text
  }
  return registered.some((one) => one === uri || portless(one) === portless(uri))
}

/** The destination of a code as a text for people. */
export function placeOf(uri: string): string {
  const url = new URL(uri)
  if (isLoopback(url)) return 'a program on this computer'
  return url.protocol === 'https:' ? url.host : `the program that opens ${url.protocol}//`
}
