// The addresses to which this machine may connect for callers.
import { networkInterfaces } from 'node:os'
import { expect, test } from 'vitest'
import { mayReach, reachable, Unreachable } from './reachable.ts'

const CLOSED = { allowHostLoopback: false }
const OPEN = { allowHostLoopback: true }
const never = new AbortController().signal

const own = Object.values(networkInterfaces()).flatMap((addresses) => (addresses ?? []).filter(({ internal }) => !internal).map(({ address }) => address))
const LOOPBACK = ['127.0.0.1', '127.8.8.8', '::1', '::ffff:127.0.0.1', '::ffff:7f00:1', '0:0:0:0:0:0:0:1']
const NEVER = [
  '169.254.169.254',
  '::ffff:169.254.169.254',
  '100.100.100.200',
  'fd00:ec2::254',
  'fe80::1',
  '0.0.0.0',
  '::',
  '::ffff:0.0.0.0',
  '224.0.0.1',
  '255.255.255.255',
  'ff02::1',
  ...own,
]
const ELSEWHERE = ['93.184.216.34', '10.123.45.67', '192.168.77.1', '2606:2800:220:1::1', '::ffff:93.184.216.34']

test.each(ELSEWHERE)('%s can be reached', async (address) => {
  // This machine may have one of these addresses itself.
  if (own.includes(address)) return
  expect([mayReach(address, CLOSED), mayReach(address, OPEN)]).toEqual([true, true])
  expect(await reachable(address, CLOSED, never)).toBe(address)
})

test.each(NEVER)('%s is never reached', async (address) => {
  expect([mayReach(address, CLOSED), mayReach(address, OPEN)]).toEqual([false, false])
  await expect(reachable(address, OPEN, never)).rejects.toThrow(Unreachable)
})

test.each(LOOPBACK)('%s, loopback, is reached only where the settings allow it', async (address) => {
  expect([mayReach(address, CLOSED), mayReach(address, OPEN)]).toEqual([false, true])
  await expect(reachable(address, CLOSED, never)).rejects.toThrow(/closed/)
})

test('a name is resolved, and its address is what counts', async () => {
  await expect(reachable('localhost', CLOSED, never)).rejects.toThrow(/"localhost" is an address that is closed/)
  expect(['127.0.0.1', '::1']).toContain(await reachable('localhost', OPEN, never))
  expect(await reachable('[2606:2800:220:1::1]', CLOSED, never)).toBe('2606:2800:220:1::1')
})

test("host.cob.internal is this machine's loopback where the settings allow it, and else unknown", async () => {
  expect(await reachable('Host.Cob.Internal', OPEN, never)).toBe('127.0.0.1')
  await expect(reachable('host.cob.internal', CLOSED, never)).rejects.toThrow(Unreachable)
})

test('a name that does not exist is an error that names it, and an aborted caller does not wait', async () => {
  await expect(reachable('no-such-host.invalid', CLOSED, never)).rejects.toThrow(/no-such-host.invalid/)
  await expect(reachable('no-such-host.invalid', CLOSED, AbortSignal.abort(new Error('gone')))).rejects.toThrow('gone')
})
