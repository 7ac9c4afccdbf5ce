// How long something goes on without the service that it works for.

/** Counts those who watch; tells once when nobody has watched for too long. */
export interface Lease {
  /** Notes a watcher; the returned function, called once, notes that it has left. */
  watch(): () => void
  /** Allows `ms` without a watcher, besides the grace. */
  allow(ms: number): void
}

/** Timers take 31 bits: 24 days. What may go on for longer is not ended. */
const MAX_TIMER_MS = 2 ** 31 - 1

/** Makes a lease that allows `graceMs` without a watcher, from now on, before `onEnd` is called. */
export function openLease(graceMs: number, onEnd: () => void): Lease {
  let watchers = 0
  let allowedMs = 0
  let since = performance.now()
  let timer: NodeJS.Timeout | undefined
  const arm = () => {
    clearTimeout(timer)
    const left = since + allowedMs + graceMs - performance.now()
    if (watchers === 0 && left <= MAX_TIMER_MS) timer = setTimeout(onEnd, Math.max(0, left)).unref()
  }
  arm()
  return {
    watch() {
      watchers++
      arm()
      return () => {
        watchers--
        since = performance.now()
        arm()
      }
    },
    allow(ms) {
      allowedMs = ms
      arm()
    },
  }
}
