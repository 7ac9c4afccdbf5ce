// The addresses at which this machine answers, as the kernel knows them, and notifications of changes.
import { spawn, type ChildProcess } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { isIPv4 } from 'node:net'
import type { Log } from '../../base/log.ts'

/** One change comes as several lines. They are collected for this long and handled once. */
const GATHER_MS = 20

/** `ip monitor` does not end by itself. If it does, it is started again after this time, and all addresses are read again. */
const AGAIN_MS = 1_000

/** Flags of routes in /proc/net/ipv6_route (linux/ipv6_route.h). */
const RTF_ANYCAST = 0x0010_0000
const RTF_LOCAL = 0x8000_0000

/** The instance's own loopback hides the host's, so packets to these never leave an instance. */
const LOOPBACK = /^(127\.|::1\/)/

/**
 * Every range that leads to this machine: local, broadcast and anycast routes of all routing tables. This includes addresses of idle interfaces,
 * of loopback, and whole ranges that were made local. Sorted, in CIDR notation, without 127.0.0.0/8 and ::1. Default routes are left out: a
 * transparent proxy has a `local` one for marked packets only.
 */
export function hostRanges(read: (file: string) => string = readProc): string[] {
  const ranges = [...ranges4(read('/proc/net/fib_trie')), ...ranges6(read('/proc/net/ipv6_route'), read('/proc/net/anycast6'), read('/proc/net/if_inet6'))]
  return [...new Set(ranges)].filter((range) => !LOOPBACK.test(range) && !range.endsWith('/0')).toSorted()
}

// A leaf is its address on one line, then one line for each of its routes: "/32 host LOCAL".
function* ranges4(trie: string): Generator<string> {
  let address = ''
  for (const [, leaf, length] of trie.matchAll(/\|-- (\S+)$|^ +\/(\d+) \S+ (?:LOCAL|BROADCAST|ANYCAST)\b/gm))
    if (leaf !== undefined) address = leaf
    else yield `${address}/${length}`
}

// Addresses are 32 hex digits. A route: destination, length, source, length, gateway, metric, references, uses, flags, interface.
function* ranges6(routes: string, anycast: string, addresses: string): Generator<string> {
  for (const fields of rows(routes)) if (parseInt(fields[8] ?? '', 16) & (RTF_ANYCAST | RTF_LOCAL)) yield `${address6(fields[0]!)}/${parseInt(fields[1]!, 16)}`
  // Index, interface, address, users, flags.
  for (const fields of rows(anycast)) yield `${address6(fields[2]!)}/128`
  // An address during duplicate address detection has no route yet.
  for (const fields of rows(addresses)) yield `${address6(fields[0]!)}/128`
}

const rows = (text: string): string[][] =>
  text
    .split('\n')
    .filter(Boolean)
    .map((line) => line.trim().split(/\s+/))

/** The shortest form, as `ip` and Node write it. */
const address6 = (hex: string): string => new URL(`http://[${hex.match(/.{4}/g)!.join(':')}]`).hostname.slice(1, -1)

// A kernel without IPv6 does not have these files.
function readProc(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return ''
    throw error
  }
}

export const isRange4 = (range: string): boolean => isIPv4(range.slice(0, range.indexOf('/')))

/** Calls `changed` when there are new ranges. Disposing ends the watch; so does the death of this process. */
export function watchHostRanges(changed: (added: string[]) => void, log: Log): Disposable {
  let known = new Set(hostRanges())
  let child: ChildProcess | undefined
  let timer: NodeJS.Timeout | undefined
  let ended = false

  const look = () => {
    timer = undefined
    try {
      const now = hostRanges()
      const added = now.filter((range) => !known.has(range))
      known = new Set(now)
      if (added.length > 0) changed(added)
    } catch (err) {
      log.error({ err }, "the machine's addresses cannot be read; running instances can reach new ones")
    }
  }
  const soon = () => void (timer ??= setTimeout(look, GATHER_MS).unref())
  const start = () => {
    if (ended) return
    // It reports lost events on standard error. That is a reason to look as well.
    child = spawn('setpriv', ['--pdeathsig', 'KILL', 'ip', 'monitor', 'address', 'route'], { stdio: ['ignore', 'pipe', 'pipe'], cwd: '/' })
    child.stdout!.on('data', soon)
    child.stderr!.on('data', soon)
    child.on('error', () => {})
    child.once('close', (code, signal) => {
      if (ended) return
      log.warn({ code, signal }, "the watch over the machine's addresses ended; it is started again")
      setTimeout(start, AGAIN_MS).unref()
    })
    // Finds changes from before it listened.
    child.once('spawn', soon)
    child.unref()
    for (const stream of [child.stdout, child.stderr]) (stream as unknown as { unref(): void }).unref()
  }
  start()
  return {
    [Symbol.dispose]() {
      ended = true
      clearTimeout(timer)
      child?.kill('SIGKILL')
    },
  }
}
