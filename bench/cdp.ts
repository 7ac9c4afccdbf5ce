// A minimal CDP client: one WebSocket, one request, its answer. Excludes the overhead of real clients.
import { once } from 'node:events'
import { WebSocket } from 'ws'
import { within } from '../src/base/wait.ts'

const OPEN_MS = 30_000
const ANSWER_MS = 30_000

export interface Cdp extends Disposable {
  /** Sends Browser.getVersion; resolves with the product's name. */
  version(): Promise<string>
}

export async function openCdp(url: string, signal: AbortSignal): Promise<Cdp> {
  const socket = new WebSocket(url, { perMessageDeflate: false, maxPayload: 0 })
  socket.on('error', () => {})
  try {
    await within('a CDP WebSocket', OPEN_MS, once(socket, 'open'), signal)
  } catch (error) {
    socket.terminate()
    throw error
  }
  let lastId = 0
  const waiting = new Map<number, PromiseWithResolvers<string>>()
  socket.on('message', (data: Buffer) => {
    const { id, result } = JSON.parse(data.toString()) as { id: number; result?: { product: string } }
    waiting.get(id)?.resolve(result?.product ?? '')
  })
  socket.on('close', (code, reason) => waiting.forEach(({ reject }) => reject(new Error(`the CDP WebSocket closed with ${code} ${String(reason)}`))))
  return {
    async version() {
      const answer = Promise.withResolvers<string>()
      const id = ++lastId
      waiting.set(id, answer)
      socket.send(`{"id":${id},"method":"Browser.getVersion"}`)
      try {
        return await within('Browser.getVersion', ANSWER_MS, answer.promise, signal)
      } finally {
        waiting.delete(id)
      }
    },
    [Symbol.dispose]: () => socket.terminate(),
  }
}

/** Opens a connection, sends one request, and leaves the connection open. */
export async function firstAnswer(url: string, signal: AbortSignal): Promise<Cdp> {
  const cdp = await openCdp(url, signal)
  await cdp.version()
  return cdp
}
