// Blocks addresses that the machine gets later, in the networks of sandboxes that already run.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, fstatSync, openSync, readFileSync, statSync } from 'node:fs'
import type { Log } from '../../base/log.ts'
import { isAlive, type ProcessName } from '../../base/processes.ts'
import { until, WaitTimeout, within } from '../../base/wait.ts'
import { isRoot } from '../../base/user.ts'
import { hostRanges } from '../../base/own-addresses.ts'
import { watchHostRanges } from './host-addresses.ts'
import { closing, DEVICE } from './network.ts'

/** Entering a network and setting routes takes 5-10 ms. */
const ENTER_MS = 10_000

/** A sandbox has its network some 50 ms after its start; ten that start at once on two cores need ten times that. */
const NETWORK_MS = 60_000

/** What the watch needs to know about a sandbox. */
export interface Followed {
  readonly id: string
  /** Its live processes. Some of them are in its network. */
  live(): ProcessName[]
  /** Whether it has ended. Then nothing needs to be blocked. */
  isEnded(): boolean
}

/** Follows the machine's addresses for the sandboxes of a driver. */
export class LaterAddresses implements Disposable {
  readonly #log: Log
  readonly #followed = new Map<Followed, { closed: Set<string>; work: Promise<void> }>()
  readonly #stop = new AbortController()
  #watch: Disposable | undefined

  constructor(log: Log) {
    this.#log = log
  }

  /**
   * Keeps the machine's addresses blocked for a sandbox from now on. `closed` are the ranges that were blocked at its start. Other ranges of the
   * machine are blocked at once.
   */
  follow(sandbox: Followed, closed: readonly string[]): void {
    this.#followed.set(sandbox, { closed: new Set(closed), work: Promise.resolve() })
    this.#watch ??= watchHostRanges(() => this.#closeAll(), this.#log)
    this.#close(sandbox)
  }

  forget(sandbox: Followed): void {
    this.#followed.delete(sandbox)
    if (this.#followed.size > 0) return
    this.#watch?.[Symbol.dispose]()
    this.#watch = undefined
  }

  /** Resolves when all present addresses of the machine are blocked for the sandbox, or the sandbox has ended. */
  async settled(sandbox: Followed): Promise<void> {
    this.#close(sandbox)
    await this.#followed.get(sandbox)?.work
  }

  #closeAll(): void {
    for (const sandbox of this.#followed.keys()) this.#close(sandbox)
  }

  // Sequential for each sandbox: later routes do not overtake earlier ones, and each failure is reported once.
  #close(sandbox: Followed): void {
    const entry = this.#followed.get(sandbox)
    if (!entry) return
    const missing = hostRanges().filter((range) => !entry.closed.has(range))
    if (missing.length === 0) return
    for (const range of missing) entry.closed.add(range)
    entry.work = entry.work
      .then(() => closeIn(sandbox, missing, this.#stop.signal))
      .catch((err: unknown) => {
        for (const range of missing) entry.closed.delete(range) // tried again with the next change
        if (!sandbox.isEnded() && !this.#stop.signal.aborted)
          this.#log.error({ err, instance: sandbox.id, missing }, 'new addresses of the machine could not be blocked for an instance; it can still reach them')
      })
  }

  /** Leaves the sandboxes as they are. A service that adopts them blocks what is missing. */
  [Symbol.dispose](): void {
    this.#stop.abort(new Error('the service stops'))
    this.#followed.clear()
    this.#watch?.[Symbol.dispose]()
    this.#watch = undefined
  }
}

/** Sets the routes as soon as the sandbox has its network. */
async function closeIn(sandbox: Followed, ranges: string[], signal: AbortSignal): Promise<void> {
  let problem: unknown
  const attempt = async () => {
    if (sandbox.isEnded()) return true
    try {
      return await enter(sandbox, closing(ranges))
    } catch (error) {
      problem = error // for example before its addresses are set up
      return false
    }
  }
  try {
    await until('a network to take routes', NETWORK_MS, attempt, { everyMs: 50, signal })
  } catch (error) {
    if (problem === undefined && error instanceof WaitTimeout) return // made on a machine without a network, so there is nothing to block
    throw problem ?? error
  }
}

/**
 * Runs `ip -batch` in the sandbox's network; false when none of its processes is in one. The namespaces are opened and then checked before they
 * are entered, so a reused pid cannot lead into another network, least of all the host's.
 */
async function enter(sandbox: Followed, batch: string): Promise<boolean> {
  const ours = statSync('/proc/self/ns/net').ino
  for (const name of sandbox.live()) {
    using network = openOf(name, 'net')
    if (!network || fstatSync(network.fd).ino === ours || !hasDevice(name)) continue
    // Root may enter any network. Other users can only enter it through the user namespace that owns it.
    using user = isRoot() ? undefined : openOf(name, 'user')
    if ((!isRoot() && !user) || !isAlive(name)) continue
    const asOwner = user ? ['--user=/proc/self/fd/4', '--preserve-credentials'] : []
    await ip([...asOwner, '--net=/proc/self/fd/3', '--', 'ip', '-batch', '-'], [network.fd, ...(user ? [user.fd] : [])], batch)
    return true
  }
  return false
}

function hasDevice({ pid }: ProcessName): boolean {
  try {
    return readFileSync(`/proc/${pid}/net/dev`, 'utf8').includes(`${DEVICE}:`)
  } catch {
    return false // it has ended
  }
}

function openOf({ pid }: ProcessName, space: 'net' | 'user'): ({ fd: number } & Disposable) | undefined {
  try {
    const fd = openSync(`/proc/${pid}/ns/${space}`, 'r')
    return { fd, [Symbol.dispose]: () => closeSync(fd) }
  } catch {
    return undefined // it has ended, or we may not look into it, as with pasta itself
  }
}

async function ip(args: string[], fds: number[], batch: string): Promise<void> {
  const child = spawn('nsenter', args, { stdio: ['pipe', 'ignore', 'pipe', ...fds], cwd: '/' })
  let said = ''
  child.stderr!.on('data', (chunk: Buffer) => (said += chunk.toString()))
  child.stdin!.on('error', () => {}) // it ended before it had read everything; its exit code reports that
  child.stdin!.end(batch)
  try {
    const [code] = (await within('a network to be entered', ENTER_MS, once(child, 'close'))) as [number | null]
    if (code !== 0) throw new Error(`nsenter ended with ${code}: ${said.trim().slice(-500)}`)
  } finally {
    child.kill('SIGKILL')
  }
}
