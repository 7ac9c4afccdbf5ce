// How many connections the server takes, so that descriptors are left for what the service cannot do without.
import { readFileSync } from 'node:fs'
import type { Server } from 'node:net'
import type { Log } from '../base/log.ts'

/** Postgres' connections, our log, files that are read, pipes of programs that are being started. */
const OWN = 80
/** What is held for each instance: its agent's watch, and a recording's connection and file. */
const EACH_INSTANCE = 3
/** A caller's connection often needs another one, to an agent or a file. */
const EACH_CONNECTION = 2
/** How often it is logged that connections are refused. */
const LOG_MS = 60_000

/** Descriptors that this process may have open. Node has raised the soft limit to the hard one when it started. */
export function descriptorLimit(): number {
  const soft = /^Max open files\s+(\S+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1]
  return soft === undefined || soft === 'unlimited' ? Infinity : Number(soft)
}

/** Connections that leave enough of `descriptors` for `instances`; at least a quarter of them goes to callers. */
export function connectionsFor(descriptors: number, instances: number): number {
  const kept = Math.min(descriptors / 2, OWN + EACH_INSTANCE * instances)
  return Math.floor((descriptors - kept) / EACH_CONNECTION)
}

/** What is wrong with a limit of descriptors for so many instances; undefined when it is enough. */
export function descriptorProblem(descriptors: number, instances: number): string | undefined {
  const wanted = OWN + (EACH_INSTANCE + 4 * EACH_CONNECTION) * instances
  if (descriptors >= wanted) return undefined
  return `${descriptors} open files are allowed, so ${connectionsFor(descriptors, instances)} connections are taken; for ${instances} sessions and runs allow ${wanted} (ulimit -n)`
}

/** Has the server close at once what exceeds its room. Without this, a flood takes the descriptors that Postgres and the sessions need. */
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
    log.warn({ connections: server.maxConnections }, 'connections are refused: as many are open as descriptors allow')
  })
}
