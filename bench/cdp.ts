// A minimal CDP client: one WebSocket, requests and their answers. It avoids the overhead of real clients.
import { once } from 'node:events'
import { WebSocket } from 'ws'
import { until, within } from '../src/base/wait.ts'

const OPEN_MS = 30_000
const ANSWER_MS = 30_000
const PAGE_MS = 60_000

export interface Cdp extends Disposable {
  /** Sends Browser.getVersion; resolves with the product's name. */
  version(): Promise<string>
  /** Sends a command, to a page when `sessionId` names an attached one; resolves with its result. @throws when Chromium refuses it */
  send<T = unknown>(method: string, params?: object, sessionId?: string): Promise<T>
}

export interface CdpPage {
  /** Begins to load an address. @throws when it cannot be reached */
  open(address: string): Promise<void>
  /** The value of an expression, or of its promise. @throws what the page throws */
  value<T>(expression: string): Promise<T>
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
  const waiting = new Map<number, PromiseWithResolvers<unknown>>()
  socket.on('message', (data: Buffer) => {
    const { id, result, error } = JSON.parse(data.toString()) as { id: number; result?: unknown; error?: { message: string } }
    if (error) waiting.get(id)?.reject(new Error(`CDP: ${error.message}`))
    else waiting.get(id)?.resolve(result)
  })
  socket.on('close', (code, reason) => waiting.forEach(({ reject }) => reject(new Error(`the CDP WebSocket closed with ${code} ${String(reason)}`))))
  const ask = async (id: number, method: string, message: string): Promise<unknown> => {
    const answer = Promise.withResolvers<unknown>()
    waiting.set(id, answer)
    socket.send(message)
    try {
      return await within(method, ANSWER_MS, answer.promise, signal)
    } finally {
      waiting.delete(id)
    }
  }
  return {
    async version() {
      const id = ++lastId
      return ((await ask(id, 'Browser.getVersion', `{"id":${id},"method":"Browser.getVersion"}`)) as { product: string }).product
    },
    async send<T>(method: string, params = {}, sessionId?: string) {
      const id = ++lastId
      return (await ask(id, method, JSON.stringify({ id, method, params, sessionId }))) as T
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

/** The first page of a browser. */
export async function pageOf(cdp: Cdp): Promise<CdpPage> {
  const page = await until(
    'a page',
    PAGE_MS,
    async () => (await cdp.send<{ targetInfos: { targetId: string; type: string }[] }>('Target.getTargets')).targetInfos.find(({ type }) => type === 'page'),
    { everyMs: 2 },
  )
  const { sessionId } = await cdp.send<{ sessionId: string }>('Target.attachToTarget', { targetId: page.targetId, flatten: true })
  return {
    async open(address) {
      const { errorText } = await cdp.send<{ errorText?: string }>('Page.navigate', { url: address }, sessionId)
      if (errorText !== undefined) throw new Error(`${address}: ${errorText}`)
    },
    async value<T>(expression: string) {
      const asked = { expression, awaitPromise: true, returnByValue: true }
      const { result, exceptionDetails } = await cdp.send<{ result: { value: T }; exceptionDetails?: object }>('Runtime.evaluate', asked, sessionId)
      if (exceptionDetails) throw new Error(`${expression.slice(0, 50)}: ${JSON.stringify(exceptionDetails).slice(0, 500)}`)
      return result.value
    },
  }
}
