// Closes and opens, in an instance's network, the ways around its browser's proxy: UDP of the whole instance, and TCP connections that Chromium has open.
import { opendir, readFile, readlink, rm, writeFile } from 'node:fs/promises'
import { isIP } from 'node:net'
import { join } from 'node:path'
import type { Log } from '../../base/log.ts'
import { readProcessHead } from '../../base/processes.ts'
import { sleep } from '../../base/wait.ts'
import type { DirectWays } from '../driver.ts'
import { enter, memberOf, type Entered } from './enter.ts'
import { DEVICE } from './network.ts'
import { presentProcesses, recall } from './remembered.ts'

/** The file in the instance's directory that records that its ways are closed; empty during a change. Without it they are open. */
const RECORD = 'direct-ways'
const CLOSED = 'closed'

/** The routing table and the rules of closed UDP. Rules of lower numbers come first; those of the system have 0 and 32766. */
const TABLE = 77
const DNS_RULE = 5
const UDP_RULE = 6

/**
 * Requests of a page that wait for one of Chromium's six connections to a host get the next one, so after ending connections the check is repeated, until it
 * has found none this often.
 */
const QUIET_LOOKS = 2
const QUIET_MS = 5
/** A page that keeps opening connections, through a client's own context without a proxy, does not delay its caller for longer than this. */
const END_MS = 1_000

/**
 * Limits on what is read, because a session can make a lot of it: processes with their descriptors, and bytes of a list of connections. A browser with many
 * tabs has some thousand descriptors, and a connection has a line of 150 bytes.
 */
const MAX_LOOKS = 20_000
const MAX_TABLE = 512 * 1024

interface LocalDirectWays {
  /** The folder of all instances' directories. */
  root: string
  /** The processes of an instance's CPU group. */
  members: (id: string) => readonly number[]
  chromium: string
  log: Log
}

export function localDirectWays({ root, members, chromium, log }: LocalDirectWays): DirectWays {
  const sandbox = (id: string): Entered => ({ live: () => recall(join(root, id))?.processes ?? [] })
  const run = (id: string, program: readonly string[], input: string) => enter(sandbox(id), program, input)
  const recordOf = (id: string) => join(root, id, RECORD)
  const stateOf = (id: string) => readFile(recordOf(id), 'utf8').catch(() => undefined)

  /** Chromium's TCP connections to other hosts; all of the instance's when there are too many descriptors to check. */
  async function direct(id: string): Promise<Connection[] | 'all'> {
    const member = memberOf(sandbox(id))
    if (!member) return []
    const tables = await Promise.all(['net/tcp', 'net/tcp6'].map((file) => readProcessHead(member.pid, file, MAX_TABLE)))
    if (tables.some((table) => table?.length === MAX_TABLE)) return 'all'
    const outward = connectionsIn(...tables.map((table) => table ?? '')) // without a table it has ended, or there is no IPv6
    if (outward.length === 0) return []
    const own = await socketsOf(below(id), chromium)
    return own ? outward.filter(({ inode }) => own.has(inode)) : 'all'
  }

  /** The processes of an instance. The CPU group lists all at once; without a group they are found thread by thread. */
  function below(id: string): readonly number[] {
    const grouped = members(id)
    return grouped.length > 0 ? grouped : presentProcesses(sandbox(id).live(), []).map(({ pid }) => pid)
  }

  async function endConnections(id: string): Promise<void> {
    const end = performance.now() + END_MS
    for (let quietFor = QUIET_LOOKS; ; await sleep(QUIET_MS)) {
      const found = await direct(id)
      if (found === 'all') return await endAll(id)
      quietFor = found.length > 0 ? 0 : quietFor + 1
      if (quietFor >= QUIET_LOOKS) return
      if (performance.now() > end && found.length > 0)
        return log.warn(
          { instance: id, connections: found.length },
          'a browser goes on opening direct connections, or the kernel does not end them (cob doctor)',
        )
      for (let at = 0; at < found.length; at += MAX_FILTERS) await run(id, [...KILL, ...filterOf(found.slice(at, at + MAX_FILTERS))], '')
    }
  }

  async function endAll(id: string): Promise<void> {
    log.warn({ instance: id }, 'a session has too many connections or open files to look for those of its browser: all its connections to others are ended')
    for (let look = 0; look < QUIET_LOOKS; look++) {
      if (look > 0) await sleep(QUIET_MS)
      await run(id, [...KILL, ...OUTWARD], '')
    }
  }

  return {
    async close(id) {
      const state = await stateOf(id)
      if (state === CLOSED) return async () => {}
      await writeFile(recordOf(id), '', { mode: 0o600 })
      await run(id, SHELL, (state === undefined ? '' : OPEN) + closing(await resolversOf(join(root, id))))
      return async () => {
        await endConnections(id)
        await writeFile(recordOf(id), CLOSED, { mode: 0o600 })
      }
    },
    async open(id) {
      const state = await stateOf(id)
      if (state === undefined) return
      await writeFile(recordOf(id), '', { mode: 0o600 })
      await run(id, SHELL, state === CLOSED ? opening(await resolversOf(join(root, id))) : OPEN)
      await rm(recordOf(id), { force: true })
    },
  }
}

const SHELL = ['/bin/sh', '-e']

/** Shell lines that run `ip` with `batch` for IPv4 and for IPv6, as far as the kernel supports these. */
const forBoth = (batch: (family: 4 | 6) => string[]): string => {
  const lines = (family: 4 | 6) => `ip -${family} -batch - <<.\n${batch(family).join('\n')}\n.\n`
  return `${lines(4)}[ ! -e /proc/net/if_inet6 ] || ${lines(6)}`
}

/** A rule for each resolver of a family. */
const exceptions = (resolvers: readonly string[], family: 4 | 6): string[] =>
  resolvers.filter((address) => isIP(address) === family).map((address) => `pref ${DNS_RULE} to ${address} iif lo ipproto udp dport 53 lookup main`)

const REFUSED = `pref ${UDP_RULE} iif lo ipproto udp lookup ${TABLE}`

/**
 * Everything outside is declared local, as for the blocked ranges (network.ts), but for UDP only. The instance's own addresses are in the system's table, which
 * comes first.
 */
const closing = (resolvers: readonly string[]): string =>
  forBoth((family) => [
    `route replace local default dev ${DEVICE} table ${TABLE}`,
    ...[...exceptions(resolvers, family), REFUSED].map((rule) => `rule add ${rule}`),
  ])

/** Undoes a complete {@link closing}. Without the rules, the table is not used. */
const opening = (resolvers: readonly string[]): string => forBoth((family) => [REFUSED, ...exceptions(resolvers, family)].map((rule) => `rule del ${rule}`))

/** Shell lines that undo a partial {@link closing}, and a partial {@link opening}. */
const OPEN = `for family in -4 -6; do
while ip $family rule del pref ${UDP_RULE} 2>/dev/null; do :; done
while ip $family rule del pref ${DNS_RULE} 2>/dev/null; do :; done
[ $family = -6 ] && [ ! -e /proc/net/if_inet6 ] || ip $family route flush table ${TABLE}
done
`

const ENDS = `
use IO::Socket::INET;
my $server = IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1") or die "no socket: $!\\n";
my $client = IO::Socket::INET->new(PeerAddr => "127.0.0.1", PeerPort => $server->sockport) or die "no connection: $!\\n";
system("ss", "--kill", "--tcp", "--numeric", "dst", "127.0.0.1:" . $server->sockport) == 0 or die "ss has failed\\n";
defined $client->recv(my $data, 1, MSG_DONTWAIT | MSG_PEEK) or $!{ECONNABORTED} or die "a connection was not ended: $!\\n";`

/** A program, with its arguments, that succeeds when the kernel supports what {@link localDirectWays} needs. */
export const ENDING_CHECK = [
  'unshare',
  '--user',
  '--map-root-user',
  '--net',
  '/bin/sh',
  '-ec',
  `ip link set lo up; ip rule add pref ${UDP_RULE} iif lo ipproto udp lookup ${TABLE}; exec perl -MErrno -MSocket=:all -e "$1"`,
  'sh',
  ENDS,
] as const

/** The programs of the session can still resolve names. */
async function resolversOf(dir: string): Promise<string[]> {
  const lines = (await readFile(join(dir, 'etc', 'resolv.conf'), 'utf8')).matchAll(/^nameserver (\S+)$/gm)
  return [...new Set(Array.from(lines, ([, address]) => address!))]
}

/** A connection, with addresses and ports as `ss` takes them. */
interface Connection {
  inode: string
  from: string
  to: string
}

/** Most filters in one call of `ss`: its program for the kernel must not get too long. */
const MAX_FILTERS = 50

const KILL = ['ss', '--kill', '--tcp', '--numeric']
const OUTWARD = ['not', '(', 'dst', '127.0.0.0/8', 'or', 'dst', '[::1]', ')']

const filterOf = (connections: readonly Connection[]): string[] =>
  connections.flatMap(({ from, to }, at) => [...(at > 0 ? ['or'] : []), '(', 'src', from, 'and', 'dst', to, ')'])

/** ESTABLISHED, SYN_SENT and CLOSE_WAIT (linux/tcp_states.h): in these a program may still send. */
const SENDING = ['01', '02', '08']

/** The connections to other hosts that /proc/net/tcp and /proc/net/tcp6 list. Loopback, and the instance's own addresses, lead to programs inside. */
export function connectionsIn(...tables: readonly string[]): Connection[] {
  return tables.flatMap((table) =>
    table.split('\n').flatMap((line) => {
      const [, from, to, state, , , , , , inode] = line.trim().split(/\s+/)
      if (!from || !to || !inode || inode === '0' || !SENDING.includes(state!)) return []
      const [local, remote] = [endOf(from), endOf(to)]
      return remote.host === local.host || LOOPBACK.test(remote.host) ? [] : [{ inode, from: ended(local), to: ended(remote) }]
    }),
  )
}

const LOOPBACK = /^(127\.|::1$|::ffff:7f)/

interface End {
  host: string
  port: number
}

const ended = ({ host, port }: End): string => `${host.includes(':') ? `[${host}]` : host}:${port}`

/**
 * An address in the list is its 32-bit words in hex, each in the byte order of the machine (little-endian on every machine that Chromium supports), then the
 * port.
 */
function endOf(text: string): End {
  const [hex = '', port = ''] = text.split(':')
  const bytes = hex.match(/.{8}/g)!.flatMap((word) => word.match(/../g)!.toReversed())
  const host =
    bytes.length === 4
      ? bytes.map((byte) => parseInt(byte, 16)).join('.')
      : new URL(`http://[${bytes.join('').match(/.{4}/g)!.join(':')}]`).hostname.slice(1, -1)
  return { host, port: parseInt(port, 16) }
}

/** The inodes of the sockets of processes that run `program`; undefined when there are too many descriptors to check. @throws when they cannot be read */
export async function socketsOf(pids: readonly number[], program: string): Promise<Set<string> | undefined> {
  const sockets = new Set<string>()
  let left = MAX_LOOKS
  for (const pid of pids) {
    if (left-- <= 0) return undefined
    const folder = `/proc/${pid}/fd`
    if ((await readProcessHead(pid, 'cmdline', Buffer.byteLength(program))) !== program) continue
    try {
      for await (const { name } of await opendir(folder, { bufferSize: 256 })) {
        if (left-- <= 0) return undefined
        const socket = /^socket:\[(\d+)\]$/.exec(await readlink(join(folder, name)).catch(unlessGone))?.[1]
        if (socket !== undefined) sockets.add(socket)
      }
    } catch (error) {
      unlessGone(error)
    }
  }
  return sockets
}

/** A process has ended, or a descriptor of it was closed; or it is a sandboxed process of Chromium's, which has no sockets. @throws other errors */
function unlessGone(error: unknown): string {
  if (['ENOENT', 'ESRCH', 'EACCES', 'EPERM'].includes((error as NodeJS.ErrnoException).code ?? '')) return ''
  throw error
}
