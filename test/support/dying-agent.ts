// An agent that answers no call and whose session ends during the first one.
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

/** The first call runs `end`, which ends the session. */
export async function dyingAgent(end: () => Promise<unknown>): Promise<AsyncDisposable & { endpoint: { host: string; port: number } }> {
  let ended: Promise<unknown> | undefined
  const server = createServer((request) => void (ended ??= end()).then(() => request.socket.destroy())).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return { endpoint: { host: '127.0.0.1', port }, [Symbol.asyncDispose]: async () => void server.close() }
}
