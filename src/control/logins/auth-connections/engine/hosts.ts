// The hosts where a flow may type values: those of its connection, and identity providers once the user or the credential has chosen one. The agent checks the
// same list again.
import { domainToASCII } from 'node:url'

/**
 * Identity providers that need no listing (the published service has the same list), by the names of choices (sso.ts). `*.` matches every name below, but not
 * the name itself.
 */
const IDENTITY_PROVIDERS: Record<string, string[]> = {
  google: ['accounts.google.com'],
  microsoft: ['login.microsoftonline.com', 'login.live.com'],
  okta: ['*.okta.com', '*.oktapreview.com'],
  auth0: ['*.auth0.com'],
  apple: ['appleid.apple.com'],
  github: ['github.com'],
  facebook: ['www.facebook.com'],
  linkedin: ['www.linkedin.com'],
  cognito: ['*.amazoncognito.com'],
  onelogin: ['*.onelogin.com'],
  pingidentity: ['*.pingone.com', '*.pingidentity.com'],
}

/** The hosts of the chosen service. A button with another label ("single sign-on", the name of a company) may lead to any of them. */
const hostsOfChosen = (sso: string): string[] =>
  sso === '' ? [] : Object.hasOwn(IDENTITY_PROVIDERS, sso) ? IDENTITY_PROVIDERS[sso]! : Object.values(IDENTITY_PROVIDERS).flat()

/** A host in the form of browsers: ASCII, lower case, without a final dot. Empty when the text is no host. */
export function canonicalHost(host: string): string {
  const plain = host.replace(/\.$/, '')
  return plain.startsWith('[') ? plain.toLowerCase() : domainToASCII(plain)
}

interface Rules {
  domain: string
  allowedDomains: readonly string[]
  /** The other service by which the user or the credential logs in; empty: none. */
  sso: string
}

/**
 * Patterns of the hosts that may get values. An empty list of allowed domains allows no others: newer clients call it "unrestricted", but then a page that
 * redirects to any host would get the password.
 */
export function allowedHosts({ domain, allowedDomains, sso }: Rules): string[] {
  const own = [domain, ...allowedDomains].map(canonicalHost).filter((host) => host !== '')
  // A site with "www." in its name usually logs in at the name without it. Names below a public suffix belong to others: `www.github.io` does not allow every
  // `*.github.io`.
  const bare = own.filter((host) => host.startsWith('www.') && host.split('.').length > 2).map((host) => host.slice('www.'.length))
  return [...new Set([...own.flatMap((host) => [host, `*.${host}`]), ...bare, ...hostsOfChosen(sso)])]
}

/** Whether a host matches one of these. An empty host (a frame without its own origin) matches none. */
export function isAllowedHost(host: string, patterns: readonly string[]): boolean {
  const name = canonicalHost(host)
  return (
    name !== '' &&
    patterns.some((pattern) => (pattern.startsWith('*.') ? name.endsWith(pattern.slice(1)) && name.length > pattern.length - 1 : name === pattern))
  )
}
