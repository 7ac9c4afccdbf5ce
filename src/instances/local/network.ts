// The network of an instance: it reaches the internet, and nothing of this machine. pasta provides it.
import { readFileSync } from 'node:fs'
import { BlockList } from 'node:net'
import { HOST_ALIAS, hostRanges, isRange4, NEVER, TO_MANY } from '../../base/own-addresses.ts'

/** A documentation address (RFC 5737) at which pasta answers DNS for hosts whose own resolver is on loopback. */
const DNS_FORWARD = '198.51.100.53'

/** The instance's network device. */
export const DEVICE = 'eth0'

/**
 * Shell lines that end duplicate address detection. The kernel checks each new IPv6 address for a second or two. Without these lines the check
 * would end while Chromium runs, which then fails every request in flight with ERR_NETWORK_CHANGED. No other host can own the same address in
 * this network, so each address is set again without the check. One round is usually enough.
 */
const SETTLE = [
  'round=0',
  `while tentative=$(ip -6 -oneline address show dev ${DEVICE} tentative) && [ -n "$tentative" ]; do`,
  '  [ $((round += 1)) -le 20 ] || exit 72',
  '  printf "%s\\n" "$tentative" | while read -r _ _ _ address _; do',
  `    printf 'address del %s dev ${DEVICE}\naddress add %s dev ${DEVICE} nodad\n' "$address" "$address"`,
  '  done | ip -6 -batch - || exit 72',
  'done',
].join('\n')

export interface NetworkPlan {
  /** The command before bwrap; empty when the host has no network to share. */
  pasta: string[]
  /** Shell line inside the new network, before the sandbox is closed: sets the blocked ranges, and disables settings that would change by themselves later. */
  setup: (batch: string) => string
  /** The blocked ranges, as lines for `ip -batch`. There are thousands where a cluster keeps its service addresses local. */
  batch: string
  resolvConf: string
  hosts: string
}

/** A network without a way out. */
export const NO_NETWORK: NetworkPlan = { pasta: [], setup: () => '', batch: '', resolvConf: '', hosts: '127.0.0.1 localhost\n' }

/**
 * Blocks ranges, as lines for `ip -batch`: they are declared local to the instance, where no program listens. Unlike an unreachable route, that
 * also works for sockets that are bound to a device. The address that pasta gives to the instance is one of the host's own and is local already.
 * The metric puts the route before the kernel's own one for IPv6 multicast; neighbour discovery needs no route.
 */
export const closing = (ranges: readonly string[]): string =>
  ranges.map((range) => `route replace local ${range} dev ${DEVICE}${isRange4(range) ? '' : ' metric 1'}\n`).join('')

// The kernel sends to 224.0.0.0/24 and 255.255.255.255 without a route lookup when the socket is bound to the device. This rule works there as
// well. `cob doctor` reports a kernel without it. The priority lets the exception of NAMES come first.
const REFUSE_TO_MANY = `printf 'xfrm policy add dst %s dir out action block priority 1\\n' 224.0.0.0/4 255.255.255.255/32 | ip -batch -`

/**
 * A device that leads nowhere: a bridge without ports. Pages see each other's addresses as `.local` names, and Chromium resolves these by multicast DNS on every device with an address.
 * On this device it gets its own answers, because the kernel returns multicast packets to the sender's own network; outgoing packets are dropped. Chromium does not offer the addresses
 * of devices with this name to pages, so WebRTC shows the same as without the device. The address is reserved for documentation (RFC 5737).
 */
const NAMES = [
  'link add vmnet0 type bridge',
  'link set vmnet0 addrgenmode none arp off',
  'addr add 198.51.100.251/32 dev vmnet0',
  'link set vmnet0 up',
  'xfrm policy add dst 224.0.0.251/32 proto udp dport 5353 dev vmnet0 dir out action allow',
].join('\\n')
const FIND_NAMES = `printf '${NAMES}\\n' | ip -batch -`

/** A program, with its arguments, that succeeds when the kernel can refuse multicast of sockets that are bound to a device. */
export const REFUSAL_CHECK = ['unshare', '--user', '--map-root-user', '--net', '/bin/sh', '-c', REFUSE_TO_MANY] as const

/** A program, with its arguments, that succeeds when pages of a session can find each other's `.local` names. */
export const NAMES_CHECK = ['unshare', '--user', '--map-root-user', '--net', '/bin/sh', '-c', FIND_NAMES] as const

/** Both lines for a shell. Without them a session works, except for these two purposes. */
const MULTICAST = [
  `${REFUSE_TO_MANY} || echo 'multicast of sockets bound to the device is not refused (cob doctor)' >&2`,
  `${FIND_NAMES} || echo 'pages of this session do not find each other by WebRTC (cob doctor)' >&2`,
].join('\n')

/**
 * Plans the network from the present addresses of the host. The addresses change, so each instance gets a new plan. Of the host's loopback only `ports` are
 * reachable, each on the instance's own loopback.
 */
export function planNetwork(allowHostLoopback: boolean, ports: readonly number[] = []): NetworkPlan {
  const [v4, v6] = [gateway4(), hasDefaultRoute6()]
  const ranges = hostRanges()
  const own = new BlockList()
  for (const range of ranges) {
    const [address, length] = range.split('/') as [string, string]
    own.addSubnet(address, Number(length), family(address))
  }
  // An instance cannot reach a resolver on the host's own addresses or on its loopback. Both are asked through pasta.
  const nameservers = hostNameservers().filter((address) => !own.check(address, family(address)))
  const pasta = [
    'pasta',
    '--config-net',
    '--foreground',
    '--quiet',
    '--ns-ifname',
    DEVICE,
    // The addresses are set by now. A router advertisement would add others later.
    '--no-ra',
    '-t',
    'none',
    '-u',
    'none',
    '-T',
    ports.length > 0 ? ports.join(',') : 'none',
    '-U',
    'none',
    ...(v4 && v6 ? [] : v4 ? ['-4'] : ['-6']),
    ...(allowHostLoopback && v4 ? [] : ['--no-map-gw']),
    ...(nameservers.length === 0 ? ['--dns-forward', DNS_FORWARD] : []),
    '--',
  ]
  const hosts = ['127.0.0.1 localhost cob', '::1 localhost', ...(allowHostLoopback && v4 ? [`${v4} ${HOST_ALIAS}`] : [])]
  const closed = [...NEVER, ...TO_MANY, ...ranges].filter((range) => (isRange4(range) ? v4 : v6))
  return {
    pasta: v4 || v6 ? pasta : [],
    setup: (batch) => `${SETTLE}\nip -batch '${batch}' || exit 71${v4 ? `\n${MULTICAST}` : ''}`,
    batch: closing(closed),
    resolvConf: (nameservers.length > 0 ? nameservers : [DNS_FORWARD]).map((address) => `nameserver ${address}\n`).join(''),
    hosts: `${hosts.join('\n')}\n`,
  }
}

// /proc/net/route: interface, destination, gateway (hex, host byte order), ...; the default route has destination 0.
function gateway4(): string | undefined {
  for (const line of lines('/proc/net/route').slice(1)) {
    const [, destination, gateway] = line.split('\t')
    if (destination === '00000000' && gateway)
      return gateway
        .match(/../g)!
        .toReversed()
        .map((byte) => parseInt(byte, 16))
        .join('.')
  }
  return undefined
}

// /proc/net/ipv6_route lists the default as 32 zeros with prefix 00; the kernel's own unreachable one is on lo.
const hasDefaultRoute6 = (): boolean => lines('/proc/net/ipv6_route').some((line) => /^0{32} 00 /.test(line) && !line.endsWith(' lo'))

const hostNameservers = (): string[] =>
  lines('/etc/resolv.conf').flatMap((line) => {
    const address = /^nameserver\s+(\S+)/.exec(line)?.[1]
    return address && !/^(127\.|169\.254\.|::1$|fe80:)/.test(address) ? [address] : []
  })

const family = (address: string) => (address.includes(':') ? 'ipv6' : 'ipv4')

function lines(file: string): string[] {
  try {
    return readFileSync(file, 'utf8')
      .split('\n')
      .map((line) => line.trimEnd())
      .filter(Boolean)
  } catch {
    return []
  }
}
