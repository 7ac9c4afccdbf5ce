// What becomes of the agent when an exception reaches the top: mostly it lives, for everything in the session hangs on it.
import { EXCEPTIONS_WINDOW_MS, MAX_EXCEPTIONS, surviveExceptions, type Top } from '../base/guard.ts'
import type { Log } from '../base/log.ts'

/** Thrown in the middle of the X connection's reader, an exception leaves it between two messages, so the next one would be misread. */
const isInReader = (stack: string): boolean => stack.includes('/node_modules/x11/')

/**
 * Logs exceptions that nobody caught, and lives. `end`s the agent where that is not safe: when one was thrown inside the X connection's
 * reader, and when they do not stop, because an agent that only logs them would use up a core.
 */
export function guard(log: Log, end: (why: string) => void, top?: Top): void {
  surviveExceptions(
    log,
    ({ error, kind, recent }) => {
      if (recent > MAX_EXCEPTIONS) end(`more than ${MAX_EXCEPTIONS} exceptions within ${EXCEPTIONS_WINDOW_MS / 1000} s`)
      else if (kind === 'uncaughtException' && isInReader(error.stack ?? '')) end('an exception in the reader of the X connection')
    },
    top,
  )
}
