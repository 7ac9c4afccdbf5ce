// The listening socket of a sandbox's program. It is made outside and passed in, so that programs in the sandbox can neither replace nor redirect it.
import { once } from 'node:events'
import { chmodSync, renameSync } from 'node:fs'
import { createServer, type AddressInfo, type Server } from 'node:net'
import { join } from 'node:path'
import type { ServerKeys } from '../../base/access.ts'
import type { Endpoint } from '../../http/endpoint.ts'
import { makeAgentKeys } from '../agent-keys.ts'

/** Disposing closes our copy of the socket. */
export interface Listener extends AsyncDisposable {
  fd: number
  /** The address at which the program will answer. */
  agent: Endpoint
  /** The keys of the program, in addition to the socket. */
  keys?: ServerKeys
}

const LOOPBACK = '127.0.0.1'

/** The endpoint of a sandbox with a Unix socket. */
export const socketIn = (dir: string): Endpoint => ({ socketPath: join(dir, 'agent.sock') })

/** A Unix socket in the sandbox's directory; or TCP on this machine's loopback with keys, like an agent on another machine. */
export async function makeListener(dir: string, overTls: boolean): Promise<Listener> {
  if (overTls) {
    const { server: keys, pinned } = await makeAgentKeys()
    const { server, ...listener } = await listening({ host: LOOPBACK, port: 0 })
    return { ...listener, keys, agent: { host: LOOPBACK, port: (server.address() as AddressInfo).port, ...pinned } }
  }
  const path = join(dir, 'agent.sock')
  const { server: _, ...listener } = await listening({ path: `${path}.new` })
  // Closing our copy removes the file under the original name. So the socket is renamed first.
  renameSync(`${path}.new`, path)
  chmodSync(path, 0o600)
  return { ...listener, agent: { socketPath: path } }
}

async function listening(at: { path: string } | { host: string; port: number }): Promise<{ server: Server; fd: number } & AsyncDisposable> {
  const server = createServer().listen(at)
  await once(server, 'listening')
  // Node has no public name for a server's descriptor.
  const { fd } = (server as Server & { _handle: { fd: number } })._handle
  return { server, fd, [Symbol.asyncDispose]: () => new Promise((resolve) => server.close(() => resolve())) }
}
