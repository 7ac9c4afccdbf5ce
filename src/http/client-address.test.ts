// The address from which a request counts as sent.
import type { Socket } from 'node:net'
import { expect, test } from 'vitest'
import { addressList } from '../base/address-list.ts'
import { clientAddress } from './client-address.ts'

const from = (remoteAddress: string, forwarded: string | undefined, trusted: string[]) =>
  clientAddress({ socket: { remoteAddress } as Socket, headers: forwarded === undefined ? {} : { 'x-forwarded-for': forwarded } }, addressList(trusted))

test.each([
  ['10.0.0.9', '1.2.3.4', [], '10.0.0.9', 'nobody is trusted unless a setting says so'],
  ['10.0.0.9', '1.2.3.4', ['10.0.0.0/8'], '1.2.3.4', 'the client of a trusted proxy'],
  ['::ffff:10.0.0.9', '1.2.3.4', ['10.0.0.0/8'], '1.2.3.4', 'the same over a socket for both families'],
  ['10.0.0.9', '6.6.6.6, 1.2.3.4', ['10.0.0.0/8'], '1.2.3.4', 'what the client itself has written is not believed'],
  ['10.0.0.9', '6.6.6.6, 1.2.3.4, 10.0.0.8', ['10.0.0.0/8'], '1.2.3.4', 'two trusted proxies'],
  ['10.0.0.9', undefined, ['10.0.0.0/8'], '10.0.0.9', 'a proxy that says nothing'],
  ['10.0.0.9', 'unknown', ['10.0.0.0/8'], '10.0.0.9', 'a proxy that says nonsense'],
  ['10.0.0.9', '10.0.0.8, 10.0.0.7', ['10.0.0.0/8'], '10.0.0.8', 'trusted ones only'],
  ['2001:db8::1', '2001:db8:1::5', ['2001:db8::/48'], '2001:db8:1::5', 'IPv6'],
  ['192.168.1.1', '1.2.3.4', ['10.0.0.0/8', '192.168.1.1'], '1.2.3.4', 'a single address'],
])('%s with "%s", trusting %j, is %s: %s', (address: string, forwarded: string | undefined, trusted: string[], client: string, _why: string) => {
  expect(from(address, forwarded, trusted)).toBe(client)
})

test.each(['10.0.0.0/33', '10.0.0.0/8/8', 'proxy', '10.0.0.0/', '::1/129', '10.0.0.0/-1'])('"%s" is refused in a list', (text) => {
  expect(() => addressList([text])).toThrow(`"${text}" is not an address or a subnet`)
})
