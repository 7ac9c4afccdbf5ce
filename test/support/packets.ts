// Reads every packet that leaves a session's network, at the point where it leaves.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { isRoot } from '../../src/base/user.ts'
import { within } from '../../src/base/wait.ts'
import type { Cloud } from './cloud.ts'
import { processesOf } from './inside.ts'

/** The limit for Python to start, which takes a tenth of a second. */
const START_MS = 20_000

/** Prints each packet that the session's device sends. Left out: neighbour discovery, and resets without data, which refuse a closed connection. */
const READER = `
import socket, struct
ETH_P_ALL, PACKET_OUTGOING = 3, 4
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
s.bind(('eth0', 0))
print('ready', flush=True)
while True:
    frame, (_, _, kind, _, _) = s.recvfrom(65535)
    if kind != PACKET_OUTGOING:
        continue
    ether, packet = struct.unpack('!H', frame[12:14])[0], frame[14:]
    if ether == 0x0800:
        at, protocol, size = (packet[0] & 15) * 4, packet[9], struct.unpack('!H', packet[2:4])[0]
        to = socket.inet_ntop(socket.AF_INET, packet[16:20])
    elif ether == 0x86dd:
        at, protocol, size = 40, packet[6], 40 + struct.unpack('!H', packet[4:6])[0]
        to = '[' + socket.inet_ntop(socket.AF_INET6, packet[24:40]) + ']'
    else:
        continue
    if protocol == 6:
        port, flags, data = struct.unpack('!H', packet[at + 2:at + 4])[0], packet[at + 13], size - at - (packet[at + 12] >> 4) * 4
        if not (flags & 4 and data == 0):
            print('tcp', to + ':' + str(port), flush=True)
    elif protocol == 17:
        print('udp', to + ':' + str(struct.unpack('!H', packet[at + 2:at + 4])[0]), flush=True)
    elif protocol not in (0, 58):
        print('protocol', protocol, to, flush=True)
`

/** The packets that have left the session since this call, as `tcp 192.0.2.1:443`. */
export async function watchPackets(cloud: Cloud, id: string): Promise<{ seen: string[] } & AsyncDisposable> {
  // The process below pasta is in the network namespace, and in the user namespace that owns it.
  const { pid } = processesOf(cloud, id)[1]!
  const asOwner = isRoot() ? [] : [`--user=/proc/${pid}/ns/user`, '--preserve-credentials']
  const child = spawn('nsenter', [...asOwner, `--net=/proc/${pid}/ns/net`, '--', 'python3', '-c', READER], { stdio: ['ignore', 'pipe', 'inherit'] })
  const ended = once(child, 'close')
  const ready = Promise.withResolvers<void>()
  const seen: string[] = []
  createInterface({ input: child.stdout }).on('line', (line) => (line === 'ready' ? ready.resolve() : seen.push(line)))
  await within('the reader of packets', START_MS, Promise.race([ready.promise, ended.then(() => Promise.reject(new Error('it has ended')))]))
  return {
    seen,
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL')
      await ended
    },
  }
}
