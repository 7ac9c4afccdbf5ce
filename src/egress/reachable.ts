// The addresses to which this machine may connect for callers: the same as from inside an instance.
import { lookup } from 'node:dns/promises'
import { isIP } from 'node:net'
import { addressList, isIn } from '../base/address-list.ts'
import { HOST_ALIAS, hostRanges, NEVER, TO_MANY } from '../base/own-addresses.ts'
import { within } from '../base/wait.ts'

export interface ReachSettings {
  /** COB_ALLOW_HOST_LOOPBACK: this machine's loopback may be reached, and is called host.cob.internal. */
  allowHostLoopback: boolean
}

/** A host that cannot be connected to. The message is for callers: it names only addresses that they have given. */
export class Unreachable extends Error {
  override name = 'Unreachable'
}

const RESOLVE_MS = 5_000

const LOOPBACK = ['127.0.0.0/8', '::1/128']
/** Not routed, or this machine itself: "any address" connects to loopback. */
const NOWHERE = ['0.0.0.0/8', '::/128', 'fe80::/10']

/** An IPv4 address in IPv6 notation is compared as the IPv4 address. */
function listOf(ranges: readonly string[]): (address: string) => boolean {
  const list = addressList(ranges)
  return (address) => isIn(list, address)
}

const isLoopback = listOf(LOOPBACK)
const isClosed = listOf([...NEVER, ...TO_MANY, ...NOWHERE])

/** The machine's own addresses change seldom, and reading them takes a millisecond or more where there are many. */
const REMEMBER_MS = 1_000
let own: { isOurs: (address: string) => boolean; until: number } | undefined

function isOurs(address: string): boolean {
  const now = performance.now()
  if (!own || own.until < now) own = { isOurs: listOf(hostRanges()), until: now + REMEMBER_MS }
  return own.isOurs(address)
}

/**
 * Whether callers may have this machine connect to this address. Closed are: addresses of this machine, link-local and metadata addresses, multicast and
 * broadcast. Loopback is open if the settings allow it.
 */
export function mayReach(address: string, { allowHostLoopback }: ReachSettings): boolean {
  if (isIP(address) === 0) return false
  if (isLoopback(address)) return allowHostLoopback
  return !isClosed(address) && !isOurs(address)
}

/**
 * The address to connect to for a host that a caller has named. The name is resolved once. Connect to the result, not to the name: the name may resolve to
 * another address the next time.
 * @throws Unreachable when it has no address, or none that callers may reach; the signal's reason
 */
export async function reachable(host: string, settings: ReachSettings, signal: AbortSignal): Promise<string> {
  const name = host.replace(/^\[(.*)\]$/, '$1')
  if (name.toLowerCase() === HOST_ALIAS && settings.allowHostLoopback) return '127.0.0.1'
  const found = isIP(name) ? [name] : (await resolve(name, signal)).map(({ address }) => address)
  const address = found.find((one) => mayReach(one, settings))
  if (address === undefined)
    throw new Unreachable(`"${shown(host)}" is an address that is closed to callers: one of this machine, or of a service that hands out credentials`)
  return address
}

async function resolve(name: string, signal: AbortSignal): Promise<{ address: string }[]> {
  try {
    return await within('the address of a host', RESOLVE_MS, lookup(name, { all: true }), signal)
  } catch (error) {
    signal.throwIfAborted()
    throw new Unreachable(`the address of "${shown(name)}" was not found`, { cause: error })
  }
}

const shown = (host: string): string => (host.length > 100 ? `${host.slice(0, 100)}…` : host)
