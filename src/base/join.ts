// Joins two sockets byte by byte.
import type { Duplex } from 'node:stream'
import { pipe } from './pipe.ts'

/** After one socket has ended, the other one has this long to send its remaining data. */
const LINGER_MS = 10_000

/** Joins two sockets until both have ended. A socket that breaks breaks the other one, so that a cut answer does not look complete. */
export function join(a: Duplex, b: Duplex): void {
  pass(a, b)
  pass(b, a)
}

function pass(from: Duplex, to: Duplex): void {
  // A broken socket closes, which is handled below. The other side cannot use the cause.
  from.on('error', () => from.destroy())
  from.once('close', () => {
    if (!from.readableEnded) return void to.destroy()
    to.end()
    const timer = setTimeout(() => to.destroy(), LINGER_MS).unref()
    to.once('close', () => clearTimeout(timer))
  })
  pipe(from, to)
  if (from.destroyed) to.destroy()
}
