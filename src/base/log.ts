// One logger per program: JSON lines on standard output. Secrets never reach it: URLs are logged without their query, and texts of errors lose what they have.
import { pino } from 'pino'
import { withoutSecrets } from './redact/find.ts'

export interface Log {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
  child(fields: object): Log
}

/** A logger for the program `name`. `level` is one of pino's; `silent` writes nothing. `also` gets every line. */
export function makeLog(name: string, level: string, also?: (line: string) => void): Log {
  const output = pino.destination({ fd: 1, sync: true })
  const write = (line: string): void => {
    output.write(line)
    also?.(line)
  }
  return pino({ name, level, base: { name }, serializers: { err: described } }, also ? { write } : output)
}

/** Characters of an error's message and stack that are logged. The text may come from a sandbox. */
const MAX_MESSAGE = 2_000
const MAX_STACK = 4_000
const MAX_CAUSES = 4

/** The part of an error that is logged. Other properties are left out: they hold data of the failed library (raw bytes, queries with their values). */
export function described(error: unknown, depth = 0): object {
  if (!(error instanceof Error)) return { message: withoutSecrets(String(error).slice(0, MAX_MESSAGE)) }
  const { code } = error as NodeJS.ErrnoException
  const causes = error instanceof AggregateError ? error.errors.slice(0, MAX_CAUSES) : error.cause === undefined ? [] : [error.cause]
  return {
    type: error.name,
    message: withoutSecrets(error.message.slice(0, MAX_MESSAGE)),
    stack: error.stack && withoutSecrets(error.stack.slice(0, MAX_STACK)),
    ...(code !== undefined && { code }),
    ...(causes.length > 0 && depth < MAX_CAUSES && { causes: causes.map((cause) => described(cause, depth + 1)) }),
  }
}

export const silentLog: Log = { debug() {}, info() {}, warn() {}, error() {}, child: () => silentLog }
