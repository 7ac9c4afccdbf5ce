// Hosts as callers write them in lists: names, addresses, subnets, and patterns of names.
import { isIP, type BlockList } from 'node:net'
import { domainToASCII } from 'node:url'
import { getPublicSuffix } from 'tldts'
import { addressList, isIn } from './address-list.ts'

const LABEL = /^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?$/i
/** Names that browsers parse as IPv4 addresses end with a number: `1.2`, `0x7f.1`. */
const NUMBER = /^(\d+|0x[\da-f]*)$/i
const IPV6 = /^[\da-f:]*:[\da-f:.]*$/i

export const isName = (host: string): boolean => {
  const labels = host.split('.')
  return host.length <= 253 && labels.every((label) => LABEL.test(label)) && !NUMBER.test(labels.at(-1)!)
}
export const isIPv4 = (host: string): boolean =>
  /^(\d{1,3}\.){3}\d{1,3}$/.test(host) && host.split('.').every((part) => Number(part) <= 255 && String(Number(part)) === part)
export const isIPv6 = (host: string): boolean => IPV6.test(host) && URL.canParse(`http://[${host}]`)

/** Addresses of private networks (RFC 1918, RFC 6598, RFC 4193). */
const PRIVATE = ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', '100.64.0.0/10', 'fc00::/7']
/** Addresses that are not on the internet (the special-purpose registries of IANA). */
const RESERVED_V4 = '0.0.0.0/8 127.0.0.0/8 169.254.0.0/16 192.0.0.0/24 192.0.2.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4'
const RESERVED_V6 = '::/128 ::1/128 64:ff9b:1::/48 100::/64 2001:db8::/32 fe80::/10 ff00::/8'
const RESERVED = [...PRIVATE, ...RESERVED_V4.split(' '), ...RESERVED_V6.split(' ')]
const reserved = addressList(RESERVED)

/** A name; `*.` and a name, for every name below it; an address; a subnet. Lower-case, IPv6 without brackets. */
type Entry = { kind: 'name' | 'pattern' | 'address'; host: string } | { kind: 'subnet'; host: string; bits: number }

/** The kind of a list's entry; undefined when it is none of them. */
function entryOf(text: string): Entry | undefined {
  const [, base, length] = /^([^/]+)\/(\d{1,3})$/.exec(text) ?? []
  if (base !== undefined) {
    const bits = Number(length)
    const bytes = isIPv4(base) ? base.split('.').map(Number) : isIPv6(base) ? bytesOf(base) : []
    if (bits > bytes.length * 8) return undefined
    const isMasked = bytes.every((byte, at) => (byte & (0xff >> Math.min(8, Math.max(0, bits - at * 8)))) === 0)
    return isMasked ? { kind: 'subnet', host: isIPv4(base) ? base : canonical(base), bits } : undefined
  }
  if (isIPv4(text)) return { kind: 'address', host: text }
  const bracketed = /^\[(.+)\]$/.exec(text)?.[1]
  if (bracketed !== undefined) return isIPv6(bracketed) ? { kind: 'address', host: canonical(bracketed) } : undefined
  const isPattern = text.startsWith('*.')
  const name = isPattern ? text.slice(2) : text
  // The parser cuts off the part that follows a name in a URL.
  const host = /[/?#\\]/.test(name) ? name : domainToASCII(name)
  return isName(host) ? { kind: isPattern ? 'pattern' : 'name', host } : undefined
}

/** As browsers write an IPv6 address. */
const canonical = (ipv6: string): string => new URL(`http://[${ipv6}]`).hostname.slice(1, -1)

function bytesOf(ipv6: string): number[] {
  const [before = '', after] = canonical(ipv6).split('::')
  const groups = (part: string) => (part === '' ? [] : part.split(':').map((group) => parseInt(group, 16)))
  const [left, right] = [groups(before), groups(after ?? '')]
  return [...left, ...Array<number>(8 - left.length - right.length).fill(0), ...right].flatMap((group) => [group >> 8, group & 0xff])
}

/** An entry as it is stored, and as the forwarder and Chromium read it. */
const written = (entry: Entry): string => {
  if (entry.kind === 'subnet') return `${entry.host}/${entry.bits}`
  if (entry.kind === 'pattern') return `*.${entry.host}`
  return isIP(entry.host) === 6 ? `[${entry.host}]` : entry.host
}

/** Whether this is a suffix under which anybody can register names: `com`, `co.uk`, `github.io`. */
const isPublicSuffix = (name: string): boolean => getPublicSuffix(name, { allowPrivateDomains: true }) === name

const isWithin = ({ host, bits }: { host: string; bits: number }, range: string): boolean =>
  isIn(addressList([range]), host) && bits >= Number(range.split('/')[1])

/** An IPv4 address in the form of an IPv6 one. Lists of addresses take it for the IPv4 address. */
const isMapped = (host: string): boolean => host.startsWith('::ffff:')

function problemOfAllowed(entry: Entry): string | undefined {
  if (entry.kind === 'pattern') return isPublicSuffix(entry.host) ? 'must not stand for all names below a public suffix' : undefined
  if (entry.kind === 'name') return undefined
  const holds = entry.kind === 'subnet' && addressList([written(entry)])
  const isPublic = !isMapped(entry.host) && !isIn(reserved, entry.host) && !(holds && RESERVED.some((range) => isIn(holds, range.split('/')[0]!)))
  return isPublic ? undefined : 'must be a public address or subnet; private ones go into private_hosts'
}

function problemOfPrivate(entry: Entry): string | undefined {
  if (entry.kind === 'name') return undefined
  if (entry.kind === 'pattern')
    return isPublicSuffix(entry.host) || !entry.host.includes('.') ? 'must stand for names below a name of two labels that is no public suffix' : undefined
  const bits = entry.kind === 'subnet' ? entry.bits : isIP(entry.host) === 4 ? 32 : 128
  return PRIVATE.some((range) => isWithin({ host: entry.host, bits }, range)) ? undefined : `must be in one of ${PRIVATE.join(', ')}`
}

/** The entry of a list as it is stored; or why it is invalid: an empty text when it has the wrong form. */
type Parsed = string | { problem: string }

/** An entry of a session's only reachable hosts: a name, `*.` and a name, a public address, a public subnet. It applies to all ports. */
export function allowedHost(text: string): Parsed {
  const entry = entryOf(text)
  const problem = entry ? problemOfAllowed(entry) : ''
  return problem === undefined ? written(entry!) : { problem }
}

/** A host that a session reaches directly: a name, `*.` and a name, a private address, a private subnet. Names and addresses may have a port. */
export function privateHost(text: string): Parsed {
  const { host, port } = splitPort(text)
  const entry = entryOf(host)
  const isPort = port === undefined || (entry?.kind !== 'subnet' && port > 0 && port < 65_536)
  const problem = entry && isPort ? problemOfPrivate(entry) : ''
  return problem === undefined ? written(entry!) + (port === undefined ? '' : `:${port}`) : { problem }
}

/** A host that a session reaches through a proxy of its own: a name, or `*.` and a name. */
export function routeHost(text: string): Parsed {
  const entry = entryOf(text)
  return entry?.kind === 'name' || entry?.kind === 'pattern' ? written(entry) : { problem: '' }
}

/** A host and its port, if it has one: `a.test:80`, `[fd00::1]:80`. */
export function splitPort(text: string): { host: string; port: number | undefined } {
  const [, host = text, port] = /^(\[.*\]|[^:]+):(\d{1,5})$/.exec(text) ?? []
  return { host, port: port === undefined ? undefined : Number(port) }
}

/** Whether two entries of lists stand for a common host name. */
export function overlap(one: string, other: string): boolean {
  const [a, b] = [one, other].map((entry) => splitPort(entry).host)
  const isBelow = (name: string, pattern: string) => pattern.startsWith('*.') && name.endsWith(pattern.slice(1))
  return a === b || isBelow(a!, b!) || isBelow(b!, a!)
}

/**
 * Whether a host is one of a list: names as they are, `*.example.com` for every name below `example.com`, addresses and subnets for hosts that are
 * written as addresses. Names are not resolved. Case and a final dot do not matter.
 */
export function isListed(host: string, list: readonly string[]): boolean {
  const name = host.toLowerCase().replace(/\.$/, '')
  if (isIP(name) !== 0) return isIn(subnetsOf(list), name)
  return list.some((entry) => {
    const listed = entry.toLowerCase()
    return listed.startsWith('*.') ? name.endsWith(listed.slice(1)) : name === listed
  })
}

/** Made once per list: a page may request any number of addresses. */
const subnets = new WeakMap<readonly string[], BlockList>()

function subnetsOf(list: readonly string[]): BlockList {
  let made = subnets.get(list)
  if (!made) subnets.set(list, (made = addressList(list.map((entry) => entry.replace(/^\[(.*)\]$/, '$1')).filter((entry) => isIP(entry.split('/')[0]!) !== 0))))
  return made
}
