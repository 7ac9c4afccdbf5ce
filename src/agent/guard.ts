// What becomes of the agent when an exception reaches the top: mostly it lives, for everything in the session hangs on it.
import type { Log } from '../base/log.ts'

/** More exceptions than this within the time come from something that repeats; an agent that only logs them would burn the machine. */
const MAX_EXCEPTIONS = 50
const EXCEPTIONS_WINDOW_MS = 60_000
/** Deep enough to show who called: 10, Node's own default, ends inside a parser. */
const STACK_LINES = 30

/** Thrown in the middle of the X connection's reader, an exception leaves it between two messages: whatever comes next would be misread. */
const isInReader = (stack: string): boolean => stack.includes('/node_modules/x11/')

/** What is watched: `process`, or a pretended one. */
export interface Top {
  on(event: 'uncaughtException' | 'unhandledRejection', listener: (error: unknown) => void): unknown
}

/**
 * Logs exceptions that nobody caught, and lives: the request, socket or timer they came from is lost, and nothing else. `end`s the agent
 * where that is not safe: when one was thrown inside the X connection's reader, and when they do not stop.
 */
export function guard(log: Log, end: (why: string) => void, top: Top = process): void {
  Error.stackTraceLimit = STACK_LINES
  let recent: number[] = []
  const onException = (error: unknown, what: string) => {
    const now = performance.now()
    recent = [...recent.filter((at) => now - at < EXCEPTIONS_WINDOW_MS), now]
    const err = error instanceof Error ? error : new Error(String(error))
    if (recent.length <= MAX_EXCEPTIONS) log.error({ err }, what)
    if (recent.length > MAX_EXCEPTIONS) end(`${recent.length} exceptions within ${EXCEPTIONS_WINDOW_MS / 1000} s`)
    else if (what === EXCEPTION && isInReader(err.stack ?? '')) end('an exception in the reader of the X connection')
  }
  top.on('uncaughtException', (error) => onException(error, EXCEPTION))
  top.on('unhandledRejection', (error) => onException(error, 'a promise failed that nothing waits for'))
}

const EXCEPTION = 'an exception that nothing caught'
