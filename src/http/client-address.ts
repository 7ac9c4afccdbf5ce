// The address of a request's client, also through reverse proxies.
import type { IncomingMessage } from 'node:http'
import { isIP, type BlockList } from 'node:net'
import { isIn } from '../base/address-list.ts'

/** Most proxies in a chain: no service has more in front of it. */
const MAX_HOPS = 16

/**
 * The address of the client. A proxy that is trusted has added the address of its own client to the end of `X-Forwarded-For`. The client may have invented
 * everything before the first address that is not a trusted proxy's.
 */
export function clientAddress({ socket, headers }: Pick<IncomingMessage, 'socket' | 'headers'>, trusted: BlockList): string {
  let address = plain(socket.remoteAddress ?? '')
  const forwarded = String(headers['x-forwarded-for'] ?? '').split(',')
  for (let hop = 0; hop < MAX_HOPS && isIn(trusted, address); hop++) {
    const before = plain(forwarded.pop()?.trim() ?? '')
    if (isIP(before) === 0) break
    address = before
  }
  return address
}

/** An IPv4 address that a socket for both families reports as IPv6. */
const plain = (address: string): string => address.replace(/^::ffff:(?=\d+\.)/i, '')
