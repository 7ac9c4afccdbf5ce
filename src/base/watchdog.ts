// A watchdog: ends a process that has run for too long without a service that watches it.

/** Counts the watchers. Calls back once when there has been no watcher for too long. */
export interface Watchdog {
  /** Adds a watcher. Call the returned function once, when the watcher has left. */
  watch(): () => void
  /** Allows `ms` without a watcher, in addition to the grace. */
  allow(ms: number): void
  /** The time that the last {@link allow} has allowed; 0 before the first one. */
  readonly allowedMs: number
}

/** Timers take 31 bits: 24 days. A longer time has no timer. */
const MAX_TIMER_MS = 2 ** 31 - 1

/** Starts a watchdog: `onEnd` is called after `graceMs` without a watcher, counted from now. */
export function openWatchdog(graceMs: number, onEnd: () => void): Watchdog {
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
    get allowedMs() {
      return allowedMs
    },
  }
}
