// A proxy in a setting: scheme://user:password@host:port, with placeholders in the user name for the values that callers choose.

const PROXY_PROTOCOLS = ['http', 'https', 'socks5'] as const
type ProxyProtocol = (typeof PROXY_PROTOCOLS)[number]

/** The values that a caller may choose for an operator's proxy. */
const PROXY_CHOICES = ['country', 'state', 'city', 'zip', 'asn', 'os'] as const
export type ProxyChoice = (typeof PROXY_CHOICES)[number]

export interface NamedProxy {
  protocol: ProxyProtocol
  host: string
  port: number
  /** With placeholders as in `me[-country-{country}]`: the part in brackets is left out when the caller has not chosen the value. */
  username: string | undefined
  password: string | undefined
}

const DEFAULT_PORT = { http: 80, https: 443, socks5: 1080 }
const PLACE = /\{(\w*)\}/g
const OPTIONAL = /\[([^[\]]*)\]/g

/** @throws Error that says what is wrong, and shows nothing of the text: it holds a password. */
export function parseProxyUrl(text: string): NamedProxy {
  const url = URL.canParse(text) ? new URL(text) : undefined
  const protocol = PROXY_PROTOCOLS.find((one) => `${one}:` === url?.protocol)
  if (!url || !protocol || !/^\/?$/.test(url.pathname) || url.search || url.hash || !/^(\[[\da-f:.]+\]|[a-z0-9._-]+)$/i.test(url.hostname))
    throw new Error('must be a URL such as http://user:password@proxy.example.com:8080, with http, https or socks5 and without a path')
  const username = plain(url.username)
  const password = plain(url.password)
  if (username !== undefined) assertPlaces(username)
  return { protocol, host: url.hostname.replace(/^\[(.*)\]$/, '$1'), port: url.port ? Number(url.port) : DEFAULT_PORT[protocol], username, password }
}

function plain(part: string): string | undefined {
  try {
    return part === '' ? undefined : decodeURIComponent(part)
  } catch {
    throw new Error('must have "%" in its user name and password only as part of an escape such as %40')
  }
}

function assertPlaces(username: string): void {
  if (/[[\]]/.test(username.replaceAll(OPTIONAL, ''))) throw new Error('must have brackets in its user name only in pairs, none within another')
  for (const [, name] of username.matchAll(PLACE))
    if (!PROXY_CHOICES.some((choice) => choice === name))
      throw new Error(`may have only these places in its user name: ${PROXY_CHOICES.map((choice) => `{${choice}}`).join(', ')}`)
}

/** The placeholders of a user name, and which of them a caller has to fill. */
export function placesOf(username = ''): { all: Set<string>; required: Set<string> } {
  const names = (text: string) => new Set([...text.matchAll(PLACE)].map(([, name]) => name!))
  return { all: names(username), required: names(username.replaceAll(OPTIONAL, '')) }
}

/** The user name with the caller's values. */
export const fillPlaces = (username: string, chosen: Partial<Record<ProxyChoice, string>>): string => {
  const fill = (text: string) => text.replaceAll(PLACE, (_, name: ProxyChoice) => chosen[name] ?? '')
  return fill(
    username.replaceAll(OPTIONAL, (_, part: string) => ([...placesOf(part).all].every((name) => chosen[name as ProxyChoice] !== undefined) ? part : '')),
  )
}
