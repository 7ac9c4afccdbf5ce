// CDP over a WebSocket of Chromium's port: for work whose targets must end with its connection, or whose messages would block the agent's pipe.
import { once } from 'node:events'
import { WebSocket } from 'ws'
import { within } from '../../base/wait.ts'
import { makeCdp, type Cdp } from './cdp.ts'

/** Chromium accepts within a millisecond. On a machine that was starting ten browsers it took seconds. */
const CONNECT_MS = 10_000

/** Bytes of one message, above which the connection ends. Chromium has the same limit (kSendBufferSizeForDevTools). */
const MAX_MESSAGE_BYTES = 256 * 1024 * 1024

export interface CdpConnection extends Cdp {
  /** Ends the connection. Chromium then closes the hidden targets created over it. */
  close(): void
}

/** Connects to the browser's own target. @throws when Chromium does not accept within {@link CONNECT_MS} */
export async function connectCdp(port: number, path: string, maxPayload = MAX_MESSAGE_BYTES): Promise<CdpConnection> {
  const socket = new WebSocket(`ws://127.0.0.1:${port}${path}`, { perMessageDeflate: false, maxPayload })
  try {
    await within('a CDP connection', CONNECT_MS, once(socket, 'open'))
  } catch (error) {
    socket.on('error', () => {}).terminate()
    throw error
  }
  const { cdp, receiver } = makeCdp((text) => socket.send(text))
  let cause: unknown
  socket.on('message', (data: Buffer) => receiver.onMessage(data.toString()))
  // 'close' follows.
  socket.on('error', (error) => (cause = error))
  socket.on('close', () => receiver.onEnd(cause))
  return { ...cdp, close: () => socket.terminate() }
}
