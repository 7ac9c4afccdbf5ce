// On which hosts a flow may type values: those of its connection, and identity providers once the user or the credential has chosen one. The agent checks the same list again.
import { domainToASCII } from 'node:url'

/** Identity providers that need no listing (the published service has the same list). `*.` stands for every name below, not for the name itself. */
const IDENTITY_PROVIDERS = [
  'accounts.google.com',
  'login.microsoftonline.com',
  'login.live.com',
  '*.okta.com',
  '*.oktapreview.com',
  '*.auth0.com',
  'appleid.apple.com',
  'github.com',
  'www.facebook.com',
  'www.linkedin.com',
  '*.amazoncognito.com',
  '*.onelogin.com',
  '*.pingone.com',
  '*.pingidentity.com',
]

/** As browsers write a host: ASCII, lower case, without a final dot. Empty for what is no host. */
export function canonicalHost(host: string): string {
  const plain = host.replace(/\.$/, '')
  return plain.startsWith('[') ? plain.toLowerCase() : domainToASCII(plain)
}

interface Rules {
  domain: string
  allowedDomains: readonly string[]
  /** The user or the credential has chosen to log in by another service. */
  hasChosenSso: boolean
}

/**
 * Patterns of the hosts that may get values. A list of allowed domains that is empty allows no more: newer clients call it "unrestricted", but a page that redirects
 * to any host would get the password then.
 */
export function allowedHosts({ domain, allowedDomains, hasChosenSso }: Rules): string[] {
  const own = [domain, ...allowedDomains].map(canonicalHost).filter((host) => host !== '')
  // A site that is named by its "www." mostly logs in at the name without it. Names below that are others': `www.github.io` does not stand for every `*.github.io`.
  const bare = own.filter((host) => host.startsWith('www.') && host.split('.').length > 2).map((host) => host.slice('www.'.length))
  return [...new Set([...own.flatMap((host) => [host, `*.${host}`]), ...bare, ...(hasChosenSso ? IDENTITY_PROVIDERS : [])])]
}

/** Whether a host is one of these. An empty one (a frame without an origin of its own) is none. */
export function isAllowedHost(host: string, patterns: readonly string[]): boolean {
  const name = canonicalHost(host)
  return (
    name !== '' &&
    patterns.some((pattern) => (pattern.startsWith('*.') ? name.endsWith(pattern.slice(1)) && name.length > pattern.length - 1 : name === pattern))
  )
}
