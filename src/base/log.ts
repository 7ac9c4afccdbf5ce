// One logger per program: JSON lines on standard output. Secrets never reach it: URLs are logged without their query, and secrets are removed from the texts of
// errors.
import { withoutSecrets } from './redact/find.ts'

export interface Log {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
  child(fields: object): Log
}

/** The numbers of levels in the lines, as readers of such logs expect them. */
const LEVELS: Record<string, number> = { trace: 10, debug: 20, info: 30, warn: 40, error: 50, silent: Infinity }

/** A logger for the program `name`. `level` is the lowest that is written; `silent` writes nothing. `also` gets every line. */
export function makeLog(name: string, level: string, also?: (line: string) => void): Log {
  // A program continues when the reader of its log has left, or the disk is full.
  if (!process.stdout.listeners('error').includes(ignore)) process.stdout.on('error', ignore)
  const write = (line: string): void => {
    process.stdout.write(line)
    also?.(line)
  }
  const logger = (base: string): Log => {
    const at = (wanted: string) => (fields: object, message: string) => {
      if (LEVELS[wanted]! < LEVELS[level]!) return
      write(`{"level":${LEVELS[wanted]},"time":${Date.now()}${base}${inside(fields)},"msg":${JSON.stringify(message)}}\n`)
    }
    return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error'), child: (fields) => logger(base + inside(fields)) }
  }
  return logger(inside({ name }))
}

const ignore = (): void => {}

/** Fields as the inside of a JSON object, after others. */
function inside(fields: object): string {
  const json = JSON.stringify(fields, (key, value: unknown) => (key === 'err' ? described(value) : typeof value === 'bigint' ? String(value) : value))
  return json === '{}' ? '' : `,${json.slice(1, -1)}`
}

/** Characters of an error's message and stack that are logged. The text may come from a sandbox. */
const MAX_MESSAGE = 2_000
const MAX_STACK = 4_000
const MAX_CAUSES = 4

/** The part of an error that is logged. Other properties are left out: they contain data of the failed library (raw bytes, queries with their values). */
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
