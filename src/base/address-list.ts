// Lists of addresses and subnets.
import { BlockList, isIP } from 'node:net'

/** Addresses and subnets, as in `10.0.0.0/8`. @throws Error naming one that is neither */
export function addressList(texts: readonly string[]): BlockList {
  const list = new BlockList()
  for (const text of texts) {
    const [address = '', bits, ...rest] = text.split('/')
    const family = isIP(address)
    const most = family === 4 ? 32 : 128
    const length = bits === undefined ? most : /^\d{1,3}$/.test(bits) ? Number(bits) : NaN
    if (family === 0 || rest.length > 0 || !(length <= most)) throw new Error(`"${text}" is not an address or a subnet`)
    list.addSubnet(address, length, family === 4 ? 'ipv4' : 'ipv6')
  }
  return list
}

/** Whether a text is an address, and in a list. */
export const isIn = (list: BlockList, address: string): boolean => isIP(address) !== 0 && list.check(address, isIP(address) === 4 ? 'ipv4' : 'ipv6')
