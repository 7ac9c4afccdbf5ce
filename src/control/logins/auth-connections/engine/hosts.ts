// On which hosts a flow may type values: those of its connection, and identity providers once the user or the credential has chosen one. The agent checks the same list again.
import { domainToASCII } from 'node:url'

/**
 * Identity providers that need no listing (the published service has the same list), by the names that choices have (sso.ts). `*.` stands for every name below, not for
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

/** The hosts of the service that was chosen. A button that names none of these ("single sign-on", the name of a company) may lead to any of them. */
const hostsOfChosen = (sso: string): string[] =>
  sso === '' ? [] : Object.hasOwn(IDENTITY_PROVIDERS, sso) ? IDENTITY_PROVIDERS[sso]! : Object.values(IDENTITY_PROVIDERS).flat()

/** As browsers write a host: ASCII, lower case, without a final dot. Empty for what is no host. */
export function canonicalHost(host: string): string {
  const plain = host.replace(/\.$/, '')
  return plain.startsWith('[') ? plain.toLowerCase() : domainToASCII(plain)
}

interface Rules {
  domain: string
  allowedDomains: readonly string[]
  /** The other service that the user or the credential has chosen to log in by; empty: none. */
  sso: string
}

/**
 * Patterns of the hosts that may get values. A list of allowed domains that is empty allows no more: newer clients call it "unrestricted", but a page that redirects
 * to any host would get the password then.
 */
export function allowedHosts({ domain, allowedDomains, sso }: Rules): string[] {
  const own = [domain, ...allowedDomains].map(canonicalHost).filter((host) => host !== '')
  // A site that is named by its "www." mostly logs in at the name without it. Names below that are others': `www.github.io` does not stand for every `*.github.io`.
  const bare = own.filter((host) => host.startsWith('www.') && host.split('.').length > 2).map((host) => host.slice('www.'.length))
  return [...new Set([...own.flatMap((host) => [host, `*.${host}`]), ...bare, ...hostsOfChosen(sso)])]
}

/** Whether a host is one of these. An empty one (a frame without an origin of its own) is none. */
export function isAllowedHost(host: string, patterns: readonly string[]): boolean {
  const name = canonicalHost(host)
  return (
    name !== '' &&
    patterns.some((pattern) => (pattern.startsWith('*.') ? name.endsWith(pattern.slice(1)) && name.length > pattern.length - 1 : name === pattern))
  )
}
