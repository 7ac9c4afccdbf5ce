// One logger a program: JSON lines on standard output. Secrets never reach it: URLs are logged without their query.
import { pino } from 'pino'

export interface Log {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
  child(fields: object): Log
}

/** A logger for the program `name`. `level` is one of pino's; `silent` writes nothing. `also` is told every line. */
export function makeLog(name: string, level: string, also?: (line: string) => void): Log {
  const output = pino.destination({ fd: 1, sync: true })
  const write = (line: string): void => {
    output.write(line)
    also?.(line)
  }
  return pino({ name, level, base: { name } }, also ? { write } : output)
}

export const silentLog: Log = { debug() {}, info() {}, warn() {}, error() {}, child: () => silentLog }
