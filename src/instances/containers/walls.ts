// The network rules of a container, for nft(8) in its own network namespace. They are set from outside: the container has no right to change them.
import { NEVER, TO_MANY, isRange4 } from '../../base/own-addresses.ts'
import { PROGRAM_PORT } from './engine.ts'

/** Private networks (RFC 1918, 6598, 4193) and link-local addresses: the engine's host, its other containers, and other hosts near it. */
export const NEAR = ['0.0.0.0/8', '10.0.0.0/8', '100.64.0.0/10', '172.16.0.0/12', '192.168.0.0/16', '240.0.0.0/4', 'fc00::/7', 'fe80::/10']

interface Walls {
  /** Ranges that are closed in addition to the usual ones: the host's own addresses, and its networks. */
  closed: readonly string[]
  /** Ranges that the operator opens (COB_OPEN_NETWORKS). They are checked before the closed ones. Metadata addresses stay closed. */
  open: readonly string[]
  /** Servers that are open, by address. */
  servers: readonly { host: string; port: number }[]
  /** Resolvers; without any, port 53 of all near addresses is open. */
  resolvers: readonly string[]
}

/**
 * The rules. Outwards: everything except closed ranges; DNS is open. Inwards: only the program's port, where the program checks the credential. Answers may
 * always leave.
 */
export function rulesOf({ closed, open, servers, resolvers }: Walls): string {
  const lists = { never: NEVER, resolvers, open, closed: [...NEAR, ...TO_MANY, ...closed] }
  const sets = Object.entries(lists).flatMap(([name, list]) => FAMILIES.flatMap((family) => setOf(name, list, family)))
  const to = (name: keyof typeof lists, what: string): string[] =>
    FAMILIES.flatMap(({ version, match }) => (rangesOf(lists[name], version).length === 0 ? [] : [`${match} daddr @${name}${version} ${what}`]))
  const names = 'meta l4proto { tcp, udp } th dport 53 accept'
  const lines = [
    'oifname "lo" accept',
    'ct state established,related accept',
    // IPv6 does not work without it.
    'icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert, nd-router-solicit } accept',
    // In some clouds the resolvers have the addresses of the metadata service.
    ...to('resolvers', names),
    ...to('never', 'reject'),
    ...(resolvers.length === 0 ? [names] : []),
    ...servers.map(({ host, port }) => `${isRange4(`${host}/`) ? 'ip' : 'ip6'} daddr ${host} tcp dport ${port} accept`),
    ...to('open', 'accept'),
    ...to('closed', 'reject'),
  ]
  return `table inet cob {
${sets.join('\n')}
  chain out {
    type filter hook output priority 0; policy accept;
    ${lines.join('\n    ')}
  }
  chain in {
    type filter hook input priority 0; policy drop;
    iifname "lo" accept
    ct state established,related accept
    icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert, nd-router-advert } accept
    tcp dport ${PROGRAM_PORT} accept
  }
  chain through {
    type filter hook forward priority 0; policy drop;
  }
}
`
}

const FAMILIES = [
  { version: 4, match: 'ip', type: 'ipv4_addr' },
  { version: 6, match: 'ip6', type: 'ipv6_addr' },
] as const

const rangesOf = (list: readonly string[], version: 4 | 6): string[] =>
  list.filter((range) => isRange4(range.includes('/') ? range : `${range}/`) === (version === 4))

/** A named set, because the ranges may overlap. */
function setOf(name: string, list: readonly string[], { version, type }: (typeof FAMILIES)[number]): string[] {
  const ranges = rangesOf(list, version)
  return ranges.length === 0 ? [] : [`  set ${name}${version} { type ${type}; flags interval; auto-merge; elements = { ${ranges.join(', ')} } }`]
}
