// A session reaches no address of this machine: not hidden or later ones, not multicast or broadcast.
import { execFile } from 'node:child_process'
import { createSocket, type Socket } from 'node:dgram'
import { once } from 'node:events'
import { createServer, type Server } from 'node:net'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { isRoot } from '../../src/base/user.ts'
import { until } from '../../src/base/wait.ts'
import { hostRanges } from '../../src/base/own-addresses.ts'
import { startCloud, type OwnCloud } from '../support/cloud.ts'
import { freePort } from '../support/free-port.ts'
import { runInside } from '../support/inside.ts'
import { openSession, type Session } from '../support/session.ts'

const run = promisify(execFile)

/** Time from a new address of the machine until running instances block it. */
const CLOSED_MS = 20_000

/** Tries each address by TCP and UDP, with a plain socket, one bound to each device, and one whose multicast goes out there; sends the address as the message. */
const TRY_ALL = `
import concurrent.futures, itertools, json, socket, struct, sys
port, addresses = int(sys.argv[1]), sys.argv[2:]
answers = []
devices = [(name, index) for index, name in socket.if_nameindex() if name != 'lo']
ways = [('', 0, False)] + [(name, index, bound) for name, index in devices for bound in (True, False)]
def attempt(one):
    address, (device, index, bound), kind = one
    family = socket.AF_INET6 if ':' in address else socket.AF_INET
    name = '%s %s %s %s' % (address, 'tcp' if kind == socket.SOCK_STREAM else 'udp', 'bound' if bound else 'by', device)
    with socket.socket(family, kind) as s:
        s.settimeout(0.5)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        if bound:
            s.setsockopt(socket.SOL_SOCKET, 25, device.encode() + b'\\0')
        elif device and family == socket.AF_INET and kind == socket.SOCK_DGRAM:
            s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, struct.pack('@iii', 0, 0, index))
            # What lives for one hop only would not show whether it is forwarded.
            s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 9)
        try:
            # Unbound sockets need the device for link-local addresses, 2 in the sandbox.
            where = (address, port, 0, 2 if address.startswith(('ff', 'fe')) else 0) if ':' in address else (address, port)
            if kind == socket.SOCK_STREAM:
                s.connect(where)
                s.send(name.encode())
            else:
                s.sendto(name.encode(), where)
            # Anything may come to an open port, for example a late answer to a program that had it before.
            if s.recvfrom(100)[0] == b'here':
                answers.append(name)
        except OSError:
            pass
# Several at once: most wait for an answer that never comes.
with concurrent.futures.ThreadPoolExecutor(8) as pool:
    list(pool.map(attempt, itertools.product(addresses, ways, (socket.SOCK_STREAM, socket.SOCK_DGRAM))))
print(json.dumps(answers))
`

/**
 * A device for the addresses below. They are from documentation and benchmark networks, so no machine has them. A killed run may have left some: `replace` does
 * not fail then.
 */
const device = `cob${process.pid}`
const BEFORE = {
  'an address on loopback': { args: ['addr', 'replace', '198.18.77.1/32', 'dev', 'lo'], address: '198.18.77.1' },
  'an IPv6 address on loopback': { args: ['-6', 'addr', 'replace', '2001:db8:77::1/128', 'dev', 'lo'], address: '2001:db8:77::1' },
  'a range that is local': { args: ['route', 'replace', 'local', '198.18.78.0/24', 'dev', 'lo'], address: '198.18.78.9' },
  'an IPv6 range that is local': { args: ['-6', 'route', 'replace', 'local', '2001:db8:78::/64', 'dev', 'lo'], address: '2001:db8:78::9' },
  'an idle bridge': { args: ['addr', 'replace', '198.18.79.1/24', 'dev', device], address: '198.18.79.1' },
} as const
const LATER = {
  'an address on loopback': { args: ['addr', 'replace', '198.18.87.1/32', 'dev', 'lo'], address: '198.18.87.1' },
  'an IPv6 address on loopback': { args: ['-6', 'addr', 'replace', '2001:db8:87::1/128', 'dev', 'lo'], address: '2001:db8:87::1' },
  'a range that is local': { args: ['route', 'replace', 'local', '198.18.88.0/24', 'dev', 'lo'], address: '198.18.88.9' },
  'an address of an idle bridge': { args: ['addr', 'replace', '198.18.89.1/24', 'dev', device], address: '198.18.89.1' },
} as const
type Change = { args: readonly string[]; address: string }
const addressesOf = (changes: Record<string, Change>) => Object.values(changes).map(({ address }) => address)

const make = async (changes: Record<string, Change>): Promise<void> => {
  for (const { args } of Object.values(changes)) await run('ip', [...args])
}
const undo = async (changes: Record<string, Change>): Promise<void> => {
  for (const { args } of Object.values(changes))
    await run(
      'ip',
      args.map((word) => (word === 'replace' ? 'del' : word)),
    ).catch(() => {}) // it was not created
}

let cloud: OwnCloud
let session: Session
let tcp: Server
let udp: Socket[]
let port: number
/** The messages that reached a server on all addresses of this machine. */
let reached: string[] = []

beforeAll(async () => {
  tcp = createServer((socket) => {
    socket.on('error', () => {})
    socket.on('data', (data) => {
      reached.push(data.toString())
      socket.end('here')
    })
  })
  // None of those that the kernel chooses: a program in the session could get the same one, and answer itself.
  port = await freePort()
  await once(tcp.listen(port, '::'), 'listening')
  udp = await Promise.all(
    (['udp4', 'udp6'] as const).map(async (type) => {
      const socket = createSocket({ type, ipv6Only: type === 'udp6' })
      socket.on('message', (data, from) => {
        reached.push(data.toString())
        socket.send('here', from.port, from.address, () => {}) // ignore errors: the sender may have gone
      })
      socket.bind(port)
      await once(socket, 'listening')
      return socket
    }),
  )
  if (isRoot()) {
    await run('ip', ['link', 'add', device, 'type', 'bridge'])
    await make(BEFORE)
  }
  cloud = await startCloud({ COB_ALLOW_HOST_LOOPBACK: '0' })
  session = await openSession(cloud, { timeout_seconds: 600, headless: true })
})
afterAll(async () => {
  if (isRoot()) {
    await undo(BEFORE)
    await undo(LATER)
    await run('ip', ['link', 'del', device]).catch(() => {})
  }
  await session[Symbol.asyncDispose]()
  await cloud[Symbol.asyncDispose]()
  tcp.close()
  for (const socket of udp) socket.close()
})

async function tryAll(addresses: string[]): Promise<void> {
  reached = []
  const { code, output } = await runInside(cloud, session.id, `python3 - ${port} ${addresses.join(' ')} <<'PYTHON'\n${TRY_ALL}\nPYTHON`)
  expect({ code, output: output.trim() }).toEqual({ code: 0, output: '[]' })
  expect(reached).toEqual([])
}

const ROOT_ONLY = 'only root can give addresses to the machine'

test('a program in a session reaches no address in the routing tables of the machine', async () => {
  const addresses = hostRanges().map((range) => range.split('/')[0]!)
  expect(addresses).not.toEqual([])
  await tryAll(addresses.slice(0, 20))
})

test('a program in a session reaches nothing on the machine by multicast and broadcast', async () => {
  await tryAll(['224.0.0.1', '224.0.0.251', '239.255.255.250', '255.255.255.255', 'ff02::1', 'ff05::1', 'ff0e::1'])
})

test('with multicast closed, the IPv6 gateway can still be found', async () => {
  // Look it up again by neighbour discovery, which uses the gateway's multicast address, as a new session does.
  const line = `gateway=$(ip -6 route show default | sed -n 's/.* via \\([^ ]*\\) .*/\\1/p'); [ -z "$gateway" ] && echo none && exit
    echo x >/dev/udp/$gateway/9; for i in $(seq 50); do ip -6 neigh show $gateway | grep -q lladdr && echo found && exit; sleep 0.1; done`
  expect((await runInside(cloud, session.id, line)).output.trim()).toMatch(/^(found|none)$/)
})

describe.skipIf(!isRoot())(`addresses that are hidden on the machine (${ROOT_ONLY})`, () => {
  test.each(Object.entries(BEFORE))('are not reachable: %s', async (_name, { address }) => {
    await tryAll([address])
  })
})

describe.skipIf(!isRoot())(`addresses that the machine gains later (${ROOT_ONLY})`, () => {
  test('are closed in running sessions, also in one whose service was killed and started again', async () => {
    const isClosed = async (changes: Record<string, Change>) => {
      const { output } = await runInside(cloud, session.id, 'ip route show table local; ip -6 route show table local')
      return Object.values(changes).every(({ args, address }) => output.includes(args.includes('route') ? address.replace(/9$/, '0/24') : address))
    }
    await make(LATER)
    await until('they to be closed', CLOSED_MS, () => isClosed(LATER), { everyMs: 50 })
    await tryAll(addressesOf(LATER))

    const missed = { 'one that nobody saw': { args: ['addr', 'replace', '198.18.90.1/32', 'dev', 'lo'], address: '198.18.90.1' } }
    await cloud.kill()
    try {
      await make(missed)
      await cloud.start()
      await until('it to be closed', CLOSED_MS, () => isClosed(missed), { everyMs: 50 })
      await tryAll(addressesOf(missed))
    } finally {
      await undo(missed)
    }
  })
})
