// Joins two sockets byte by byte.
import type { Duplex } from 'node:stream'
import { pipe } from './pipe.ts'

/** After one socket has ended, the other one has this long to send what it still has to. */
const LINGER_MS = 10_000

/** Joins two sockets until both have ended. A socket that breaks off breaks the other one off, so that a cut answer does not look like a whole one. */
export function join(a: Duplex, b: Duplex): void {
  pass(a, b)
  pass(b, a)
}

function pass(from: Duplex, to: Duplex): void {
  // A broken socket closes, which is handled below. Its cause is of no use to the other side.
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
