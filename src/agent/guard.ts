// Handles uncaught exceptions of the agent. It usually continues, because everything in the session depends on it.
import { EXCEPTIONS_WINDOW_MS, MAX_EXCEPTIONS, surviveExceptions, type Top } from '../base/guard.ts'
import type { Log } from '../base/log.ts'

/** An exception inside the X connection's reader stops the reader in the middle of a message, so the next message would be misread. */
const isInReader = (stack: string): boolean => stack.includes('/node_modules/x11/')

/**
 * Logs uncaught exceptions and continues. `end`s the agent where continuing is not safe: after an exception inside the X connection's reader, and
 * when exceptions keep coming, because an agent that only logs them would use up a core.
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
