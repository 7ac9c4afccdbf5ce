// The last guard: an exception that no request, socket or timer has caught is a bug, and ends none of the others.
import type { Log } from './log.ts'

/** Exceptions that are logged a minute. A caller who has found a way to raise one must not fill the log with it. */
const LOGGED_PER_MINUTE = 20

/**
 * Logs exceptions and rejections that reach the top, and goes on. Node would end the process, and with it everybody's connections. What is held in
 * memory is a cache of the database here, so the work that failed leaves nothing behind that others depend on.
 */
export function surviveExceptions(log: Log): void {
  let minute = 0
  let logged = 0
  process.on('uncaughtException', (err, origin) => {
    const now = Math.floor(performance.now() / 60_000)
    if (now !== minute) [minute, logged] = [now, 0]
    if (++logged > LOGGED_PER_MINUTE) return
    try {
      log.error({ err, origin }, 'an exception reached the top of the program; this is a bug, please report it')
    } catch {} // standard output is gone, so there is no place left to say it
  })
}
