// The port of the service: checks whether it is free, and explains why not.
import { once } from 'node:events'
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { createServer } from 'node:net'
import { ConfigError } from '../../base/setting.ts'

interface Listen {
  host: string
  port: number
}

/**
 * Binds the port for a moment. The service listens only at the end, after its database was created; this check reports a used port before that.
 * @throws ConfigError naming the setting to change
 */
export async function checkPort({ host, port }: Listen): Promise<void> {
  const server = createServer()
  try {
    server.listen({ host, port })
    await once(server, 'listening')
  } catch (error) {
    throw listenProblem({ host, port }, error)
  }
  server.close()
  await once(server, 'close')
}

/** The reason why the service cannot listen there, in terms of its settings. */
export function listenProblem({ host, port }: Listen, error: unknown): Error {
  switch ((error as NodeJS.ErrnoException).code) {
    case 'EADDRINUSE':
      return new ConfigError('COB_PORT', `port ${port} on ${host} is in use by ${userOf(port)}: stop that program, or set COB_PORT to another port`)
    case 'EACCES':
      return new ConfigError('COB_PORT', `this user may not listen on port ${port}: set COB_PORT to a port from 1024 on`)
    case 'EADDRNOTAVAIL':
    case 'EAI_AGAIN':
    case 'EINVAL':
    case 'ENOTFOUND':
      return new ConfigError('COB_HOST', `${host} is not an address of this machine: set COB_HOST to one, for example 127.0.0.1 or 0.0.0.0`)
    default:
      return error as Error
  }
}

/** The program that listens on a port of this machine; only root sees programs of other users. */
function userOf(port: number): string {
  // Processes may end, and descriptors may be closed, during the search.
  const orNothing = <T>(look: () => T): T | undefined => {
    try {
      return look()
    } catch {
      return undefined
    }
  }
  const inodes = new Set(
    ['tcp', 'tcp6']
      .flatMap((file) => (orNothing(() => readFileSync(`/proc/net/${file}`, 'utf8')) ?? '').split('\n'))
      .map((line) => line.trim().split(/\s+/))
      .filter(([, local, , state]) => state === LISTENS && parseInt(local!.split(':')[1]!, 16) === port)
      .map((fields) => `socket:[${fields[9]}]`),
  )
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    const files = orNothing(() => readdirSync(`/proc/${pid}/fd`)) ?? []
    if (!files.some((fd) => inodes.has(orNothing(() => readlinkSync(`/proc/${pid}/fd/${fd}`)) ?? ''))) continue
    const isCob = /\/cli\/main\.ts\0serve\0/.test(orNothing(() => readFileSync(`/proc/${pid}/cmdline`, 'utf8')) ?? '')
    return isCob
      ? `another Cob (process ${pid})`
      : `process ${pid} (${orNothing(() => readFileSync(`/proc/${pid}/comm`, 'utf8').trim()) ?? 'it has just ended'})`
  }
  return 'another program'
}

/** The state of a socket in /proc/net/tcp. */
const LISTENS = '0A'
