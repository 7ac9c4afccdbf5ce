// One logger a program: JSON lines on standard output. Secrets never reach it: URLs are logged without their query.
import { pino } from 'pino'

export interface Log {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
  child(fields: object): Log
}

/** A logger for the program `name`. `level` is one of pino's; `silent` writes nothing. */
export function makeLog(name: string, level: string): Log {
  return pino({ name, level, base: { name } }, pino.destination({ fd: 1, sync: true }))
}

export const silentLog: Log = { debug() {}, info() {}, warn() {}, error() {}, child: () => silentLog }
