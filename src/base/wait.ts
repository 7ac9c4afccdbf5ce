// Waits that have a name and a limit, or end by a signal. Every wait for something outside this process uses one of these.
import { addAbortListener } from 'node:events'
import { setTimeout as sleepFor } from 'node:timers/promises'

/** The longest delay of a timer, for waits that only their caller bounds. */
export const NO_LIMIT_MS = 2_147_483_647

/** A wait that timed out. `what` names it, `ms` is its limit. */
export class WaitTimeout extends Error {
  readonly what: string
  readonly ms: number
  constructor(what: string, ms: number) {
    super(`${what}: nothing within ${ms} ms`)
    this.name = 'WaitTimeout'
    this.what = what
    this.ms = ms
  }
}

/** Resolves with `promise`, or rejects with {@link WaitTimeout} after `ms`, or with the signal's reason. */
export async function within<T>(what: string, ms: number, promise: Promise<T>, signal?: AbortSignal): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new WaitTimeout(what, ms)), ms)
  try {
    return await abortable(Promise.race([promise, late]), signal)
  } finally {
    clearTimeout(timer)
  }
}

/** Resolves with `promise`, or rejects with the signal's reason as soon as it aborts. */
export async function abortable<T>(promise: Promise<T>, signal?: AbortSignal): Promise<T> {
  // After an abort nothing handles this promise. Without a handler, its later rejection would end the process.
  promise.catch(() => {})
  signal?.throwIfAborted()
  const { promise: left, reject } = Promise.withResolvers<never>()
  using _left = signal && addAbortListener(signal, () => reject(signal.reason))
  return await Promise.race([promise, left])
}

/** The value of `promise`; undefined when `ms` pass (undefined: no limit) or the signal aborts first. */
export async function resultWithin<T>(ms: number | undefined, promise: Promise<T>, signal?: AbortSignal): Promise<T | undefined> {
  promise.catch(() => {})
  const { promise: over, resolve } = Promise.withResolvers<undefined>()
  const timer = ms === undefined ? undefined : setTimeout(() => resolve(undefined), ms)
  using _left = signal && addAbortListener(signal, () => resolve(undefined))
  try {
    return await Promise.race([promise, over])
  } finally {
    clearTimeout(timer)
  }
}

/** Calls `probe` every `everyMs` until it returns something other than undefined or false; bounded by `ms` and `signal`. */
export async function until<T>(
  what: string,
  ms: number,
  probe: () => Promise<T | undefined | false> | T | undefined | false,
  options: { everyMs?: number; signal?: AbortSignal } = {},
): Promise<T> {
  const end = performance.now() + ms
  for (;;) {
    options.signal?.throwIfAborted()
    const answer = await probe()
    if (answer !== undefined && answer !== false) return answer
    if (performance.now() >= end) throw new WaitTimeout(what, ms)
    await sleep(options.everyMs ?? 10, options.signal)
  }
}

/** Sleeps `ms`, or rejects with the signal's reason as soon as it aborts. */
export async function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  try {
    await sleepFor(ms, undefined, { signal })
  } catch (error) {
    throw signal?.reason ?? error
  }
}
