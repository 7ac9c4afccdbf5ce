// The last guard. An exception that no request, socket or timer has caught is a bug, and must not end other requests.
import type { Log } from './log.ts'

/** Limit on logged exceptions within the time. A caller that can raise one at will must not fill the log. */
export const MAX_EXCEPTIONS = 50
export const EXCEPTIONS_WINDOW_MS = 60_000
/** Enough stack frames to show the caller. Node's default of 10 ends inside a parser. */
const STACK_LINES = 30

/** An exception that nothing caught, or a rejected promise that nothing handled. */
export interface Uncaught {
  error: Error
  kind: 'uncaughtException' | 'unhandledRejection'
  /** The number of exceptions within {@link EXCEPTIONS_WINDOW_MS}, this one included. */
  recent: number
}

/** The emitter to watch: `process`, or a fake one. */
export interface Top {
  on(event: Uncaught['kind'], listener: (error: unknown) => void): unknown
}

const WORDS: Record<Uncaught['kind'], string> = {
  uncaughtException: 'an exception that nothing caught',
  unhandledRejection: 'a promise failed that nothing waits for',
}

/**
 * Logs uncaught exceptions and lets the process continue. Only the request, socket or timer that raised one is lost. Node would end the process, and with it
 * all connections. `then` may end the process where it is not safe to continue.
 */
export function surviveExceptions(log: Log, then: (uncaught: Uncaught) => void = () => {}, top: Top = process): void {
  Error.stackTraceLimit = STACK_LINES
  let times: number[] = []
  const listen = (kind: Uncaught['kind']) =>
    top.on(kind, (thrown) => {
      const now = performance.now()
      times = [...times.filter((at) => now - at < EXCEPTIONS_WINDOW_MS), now].slice(-MAX_EXCEPTIONS - 1)
      const error = thrown instanceof Error ? thrown : new Error(String(thrown))
      try {
        if (times.length <= MAX_EXCEPTIONS) log.error({ err: error }, WORDS[kind])
      } catch {} // standard output has been closed, so the exception cannot be logged
      then({ error, kind, recent: times.length })
    })
  listen('uncaughtException')
  listen('unhandledRejection')
}
