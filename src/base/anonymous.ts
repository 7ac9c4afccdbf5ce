// Connections whose caller has not yet sent a key or a token. Their number is limited per address and in total, so that callers without a credential cannot use
// up the service's descriptors.
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { isIPv6, type Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'

export interface AnonymousLimits {
  /** Limit per address. For IPv6 an address is one /64 network, the size that a provider gives to one customer. */
  perAddress: number
  /** Limit for all addresses together. */
  total: number
}

/**
 * For an agent or a runner that is reached by TCP. The control plane opens a connection for each of many calls at once, and counts as anonymous on it until its
 * handshake is done. An idle connection over TLS takes some 50 KB.
 */
export const STRANGERS: AnonymousLimits = { perAddress: 256, total: 512 }

export interface AnonymousConnections {
  /** Notes that the caller on this connection has sent a credential. The limits no longer apply to it. */
  known(socket: object): void
  /** The number of anonymous connections that are open. */
  count(): number
}

/**
 * Limits the connections without a credential. A new connection over a limit closes the oldest idle one, or is closed itself when all others have
 * a request under way. The client of the idle one sees a closed keep-alive connection, and clients retry their request after that.
 */
export function limitAnonymous(server: Server, limits: AnonymousLimits): AnonymousConnections {
  /** In the order of arrival. */
  const anonymous = new Map<Socket, { address: string; ends: string; requests: number }>()
  const perAddress = new Map<string, number>()
  /** The sockets of requests over TLS, with the connections that carry them. */
  const carriers = new WeakMap<object, Socket>()
  const carrierOf = (socket: object): Socket => carriers.get(socket) ?? (socket as Socket)

  const forget = (socket: Socket): void => {
    const known = anonymous.get(socket)
    if (!known) return
    anonymous.delete(socket)
    const left = perAddress.get(known.address)! - 1
    if (left === 0) perAddress.delete(known.address)
    else perAddress.set(known.address, left)
  }
  const makeRoom = (newest: Socket, address: string | undefined): void => {
    for (const [socket, known] of anonymous) {
      if (known.requests > 0 || socket === newest || (address !== undefined && known.address !== address)) continue
      forget(socket)
      socket.destroy()
      return
    }
    forget(newest)
    newest.destroy()
  }

  server.on('connection', (socket: Socket) => {
    const address = networkOf(socket.remoteAddress ?? '')
    anonymous.set(socket, { address, ends: endsOf(socket), requests: 0 })
    perAddress.set(address, (perAddress.get(address) ?? 0) + 1)
    socket.once('close', () => forget(socket))
    if (perAddress.get(address)! > limits.perAddress) makeRoom(socket, address)
    else if (anonymous.size > limits.total) makeRoom(socket, undefined)
  })
  // Over TLS a request's socket is not the socket of its connection. Node does not expose the relation, but both have the same two endpoints.
  server.on('secureConnection', (socket: TLSSocket) => {
    const ends = endsOf(socket)
    for (const [carrier, known] of anonymous) if (known.ends === ends) return void carriers.set(socket, carrier)
  })
  server.on('request', ({ socket }: IncomingMessage, response: ServerResponse) => {
    const known = anonymous.get(carrierOf(socket))
    if (!known) return
    known.requests++
    response.once('close', () => known.requests--)
  })
  return { known: (socket) => forget(carrierOf(socket)), count: () => anonymous.size }
}

const endsOf = ({ remoteAddress, remotePort, localAddress, localPort }: Socket): string => `${remoteAddress} ${remotePort} ${localAddress} ${localPort}`

/** The key under which an address is counted: an IPv4 address as it is, the first 64 bits of an IPv6 address. */
export function networkOf(address: string): string {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)
  if (mapped) return mapped[1]!
  if (!isIPv6(address)) return address
  const [head = '', tail] = address.split('%')[0]!.split('::')
  const groups = head === '' ? [] : head.split(':')
  if (tail !== undefined) {
    const behind = tail === '' ? [] : tail.split(':')
    while (groups.length + behind.length < 8) groups.push('0')
    groups.push(...behind)
  }
  return groups
    .slice(0, 4)
    .map((group) => parseInt(group, 16).toString(16))
    .join(':')
}
