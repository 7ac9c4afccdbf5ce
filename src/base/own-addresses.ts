// The addresses that callers never reach through us: those at which this machine answers, according to the kernel, and services that hand out its credentials.
import { readFileSync } from 'node:fs'
import { isIPv4 } from 'node:net'

/**
 * Link-local, and the cloud metadata services elsewhere, which hand out a machine's credentials: of Alibaba, of Oracle's first cloud, of Amazon,
 * Google and Scaleway. Azure's 168.63.129.16 is not among them, because it is also the resolver of machines there.
 */
export const NEVER = ['169.254.0.0/16', '100.100.100.200/32', '192.0.0.192/32', 'fd00:ec2::254/128', 'fd20:ce::254/128', 'fd00:42::42/128']

/** Multicast, and broadcast to every network. pasta would forward them, and services of the machine that listen on all addresses would answer. */
export const TO_MANY = ['224.0.0.0/4', '255.255.255.255/32', 'ff00::/8']

/** The name under which instances reach the host's loopback when the operator allows it. */
export const HOST_ALIAS = 'host.cob.internal'

/** Flags of routes in /proc/net/ipv6_route (linux/ipv6_route.h). */
const RTF_ANYCAST = 0x0010_0000
const RTF_LOCAL = 0x8000_0000

/** The instance's own loopback hides the host's, so packets to these addresses never leave an instance. */
const LOOPBACK = /^(127\.|::1\/)/

/**
 * Every range that leads to this machine: local, broadcast and anycast routes of all routing tables. This includes addresses of idle interfaces, of loopback,
 * and whole ranges that were made local. Sorted, in CIDR notation, without 127.0.0.0/8 and ::1. Default routes are left out: a transparent proxy has a `local`
 * default route for marked packets only.
 */
export function hostRanges(read: (file: string) => string = readProc): string[] {
  const ranges = [...ranges4(read('/proc/net/fib_trie')), ...ranges6(read('/proc/net/ipv6_route'), read('/proc/net/anycast6'), read('/proc/net/if_inet6'))]
  return [...new Set(ranges)].filter((range) => !LOOPBACK.test(range) && !range.endsWith('/0')).toSorted()
}

// A leaf is its address on one line, then one line for each of its routes: "/32 host LOCAL".
function* ranges4(trie: string): Generator<string> {
  let address = ''
  for (const [, leaf, length] of trie.matchAll(/\|-- (\S+)$|^ +\/(\d+) \S+ (?:LOCAL|BROADCAST|ANYCAST)\b/gm))
    if (leaf !== undefined) address = leaf
    else yield `${address}/${length}`
}

// Addresses are 32 hex digits. A route: destination, length, source, length, gateway, metric, references, uses, flags, interface.
function* ranges6(routes: string, anycast: string, addresses: string): Generator<string> {
  for (const fields of rows(routes)) if (parseInt(fields[8] ?? '', 16) & (RTF_ANYCAST | RTF_LOCAL)) yield `${address6(fields[0]!)}/${parseInt(fields[1]!, 16)}`
  // Index, interface, address, users, flags.
  for (const fields of rows(anycast)) yield `${address6(fields[2]!)}/128`
  // An address during duplicate address detection has no route yet.
  for (const fields of rows(addresses)) yield `${address6(fields[0]!)}/128`
}

const rows = (text: string): string[][] =>
  text
    .split('\n')
    .filter(Boolean)
    .map((line) => line.trim().split(/\s+/))

/** The shortest form, as `ip` and Node write it. */
const address6 = (hex: string): string => new URL(`http://[${hex.match(/.{4}/g)!.join(':')}]`).hostname.slice(1, -1)

// A kernel without IPv6 does not have these files.
function readProc(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return ''
    throw error
  }
}

export const isRange4 = (range: string): boolean => isIPv4(range.slice(0, range.indexOf('/')))
