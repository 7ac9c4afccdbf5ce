// Limits the server's connections, so that descriptors are left for Postgres, logs and instances.
import { readFileSync } from 'node:fs'
import type { Server } from 'node:net'
import type { Log } from '../base/log.ts'

/** For the Postgres connections, the log, files that are read, and pipes of programs that are being started. */
const OWN = 80
/** Per instance: the connection that watches its agent, and a recording's connection and file. */
const EACH_INSTANCE = 3
/** A caller's connection often needs a second one, to an agent or a file. */
const EACH_CONNECTION = 2
/** The shortest time between two log lines about refused connections. */
const LOG_MS = 60_000

/** Descriptors that this process may have open. Node raises the soft limit to the hard limit when it starts. */
export function descriptorLimit(): number {
  const soft = /^Max open files\s+(\S+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1]
  return soft === undefined || soft === 'unlimited' ? Infinity : Number(soft)
}

/** The number of connections that leaves enough of `descriptors` for `instances`; never less than a quarter of `descriptors`. */
export function connectionsFor(descriptors: number, instances: number): number {
  const kept = Math.min(descriptors / 2, OWN + EACH_INSTANCE * instances)
  return Math.floor((descriptors - kept) / EACH_CONNECTION)
}

/** The problem when the limit of descriptors is too low for this many instances; undefined when it is enough. */
export function descriptorProblem(descriptors: number, instances: number): string | undefined {
  const wanted = OWN + (EACH_INSTANCE + 4 * EACH_CONNECTION) * instances
  if (descriptors >= wanted) return undefined
  return `${descriptors} open files are allowed, so ${connectionsFor(descriptors, instances)} connections are taken; for ${instances} sessions and runs allow ${wanted} (ulimit -n)`
}

/**
 * Makes the server close connections over its limit at once. Without this, a flood of connections takes the descriptors that Postgres and the
 * sessions need.
 */
export function limitConnections(server: Server, instances: number, log: Log): void {
  const descriptors = descriptorLimit()
  if (descriptors === Infinity) return
  server.maxConnections = connectionsFor(descriptors, instances)
  const problem = descriptorProblem(descriptors, instances)
  if (problem) log.warn({}, problem)
  let loggedAt = -Infinity
  server.on('drop', () => {
    if (performance.now() - loggedAt < LOG_MS) return
    loggedAt = performance.now()
    log.warn({ connections: server.maxConnections }, 'connections are refused: the limit that the free descriptors allow is reached')
  })
}
