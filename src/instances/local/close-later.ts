// Blocks addresses that the machine gets later, in the networks of running sandboxes.
import type { Log } from '../../base/log.ts'
import { until, WaitTimeout } from '../../base/wait.ts'
import { hostRanges } from '../../base/own-addresses.ts'
import { enter, type Entered } from './enter.ts'
import { watchHostRanges } from './host-addresses.ts'
import { closing } from './network.ts'

/** A sandbox has its network some 50 ms after its start; ten that start at once on two cores need ten times that. */
const NETWORK_MS = 60_000

/** What the watch needs to know about a sandbox. */
export interface Followed extends Entered {
  readonly id: string
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
      return await enter(sandbox, ['ip', '-batch', '-'], closing(ranges))
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
