// Where codes may be sent: what clients may register, and which address a request may then name.

const MAX_URI = 1_000
/**
 * A program that is installed registers a scheme of its own: the name of a domain in reverse order, with a top-level domain first (RFC 8252, 7.1). Schemes by which operating systems start their
 * own programs are no such names.
 */
const OWN_SCHEME = /^[a-z]{2,}(\.[a-z0-9+-]+)+:\//i
/** Schemes without a dot, of programs that ask for access to MCP servers and whose makers name them. */
const KNOWN_SCHEMES = ['cursor', 'vscode', 'vscode-insiders', 'windsurf', 'claude', 'zed']
const KNOWN_SCHEME = new RegExp(`^(${KNOWN_SCHEMES.join('|')})://`, 'i')
const LOOPBACK = new Set(['localhost', '127.0.0.1', '[::1]'])

const isLoopback = ({ protocol, hostname }: URL): boolean => protocol === 'http:' && LOOPBACK.has(hostname)

/** What is wrong with an address that a client wants to register; undefined: nothing. */
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

/** Whether a request may name this address. Programs listen on whatever port is free, so the port of a loopback address does not count (RFC 8252, 7.3). */
export function mayRedirect(registered: readonly string[], uri: string): boolean {
  if (redirectProblem(uri) !== undefined) return false
  const portless = (text: string) => {
    const url = new URL(text)
    if (isLoopback(url)) url.port = ''
    return isLoopback(url) ? url.href : text
  }
  return registered.some((one) => one === uri || portless(one) === portless(uri))
}

/** For people: where a code goes to. */
export function placeOf(uri: string): string {
  const url = new URL(uri)
  if (isLoopback(url)) return 'a program on this computer'
  return url.protocol === 'https:' ? url.host : `the program that opens ${url.protocol}//`
}
