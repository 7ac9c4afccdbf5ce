// An agent whose session ends while it has a call: it answers nothing.
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

/** `end` ends the session. It is called with the first call. */
export async function dyingAgent(end: () => Promise<unknown>): Promise<AsyncDisposable & { endpoint: { host: string; port: number } }> {
  let ended: Promise<unknown> | undefined
  const server = createServer((request) => void (ended ??= end()).then(() => request.socket.destroy())).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return { endpoint: { host: '127.0.0.1', port }, [Symbol.asyncDispose]: async () => void server.close() }
}
