// The last guard: an exception that no request, socket or timer has caught is a bug, and ends none of the others.
import type { Log } from './log.ts'

/** Exceptions that are logged within the time. A caller who has found a way to raise one must not fill the log with it. */
export const MAX_EXCEPTIONS = 50
export const EXCEPTIONS_WINDOW_MS = 60_000
/** Deep enough to show the caller: 10, Node's own default, ends inside a parser. */
const STACK_LINES = 30

/** An exception that nothing caught, or a promise that failed and that nothing waits for. */
export interface Uncaught {
  error: Error
  kind: 'uncaughtException' | 'unhandledRejection'
  /** How many there were within {@link EXCEPTIONS_WINDOW_MS}, this one included. */
  recent: number
}

/** What is watched: `process`, or a pretended one. */
export interface Top {
  on(event: Uncaught['kind'], listener: (error: unknown) => void): unknown
}

const WORDS: Record<Uncaught['kind'], string> = {
  uncaughtException: 'an exception that nothing caught',
  unhandledRejection: 'a promise failed that nothing waits for',
}

/**
 * Logs exceptions that reach the top of the program, and goes on: the request, socket or timer they came from is lost, and nothing else. Node would
 * end the process, and with it everybody's connections. `then` may end it where going on is not safe.
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
      } catch {} // standard output is gone, so there is no place left to say it
      then({ error, kind, recent: times.length })
    })
  listen('uncaughtException')
  listen('unhandledRejection')
}
