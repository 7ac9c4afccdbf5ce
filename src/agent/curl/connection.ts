// curl's own CDP connection. Chromium closes its hidden pages when it closes. Large bodies on it do not block the agent's pipe.
import { once } from 'node:events'
import { WebSocket } from 'ws'
import { within } from '../../base/wait.ts'

/** Chromium accepts within a millisecond. On a machine that was starting ten browsers it took seconds. */
const CONNECT_MS = 10_000

/** For commands that depend only on Chromium. */
const ANSWER_MS = 30_000
/** For commands that wait for a target on the internet: the caller's timeout limits them. This is the longest delay of a timer. */
export const NO_LIMIT_MS = 2_147_483_647

export interface CdpEvent {
  method: string
  params: Record<string, unknown>
  sessionId?: string
}

interface Listener {
  onEvent: (event: CdpEvent) => void
  onGone: () => void
}

interface Waiting {
  sessionId: string | undefined
  answer: PromiseWithResolvers<unknown>
}

interface Message extends CdpEvent {
  id?: number
  result?: unknown
  error?: { message: string }
}

/** Chromium refused a command. The message is Chromium's. */
export class CdpRefusal extends Error {}

/** The hidden page is gone: a client of the session closed it, or its browser ended. */
export class PageGone extends Error {}

/** Chromium's errors for a command to a target that is closing or closed (content/browser/devtools). */
const GONE = /^(Inspected target navigated or closed|Session with given id not found\.|Not attached to an active page|Target closed)/

export class CdpConnection {
  readonly #socket: WebSocket
  readonly #waiting = new Map<number, Waiting>()
  readonly #sessions = new Set<string>()
  readonly #listeners = new Map<string, Listener>()
  #lastId = 0
  /** Resolves when the connection has ended, for any reason. */
  readonly ended: Promise<void>

  constructor(socket: WebSocket) {
    this.#socket = socket
    socket.on('message', (data: Buffer) => this.#onMessage(JSON.parse(data.toString()) as Message))
    // 'close' follows and is handled.
    socket.on('error', () => {})
    this.ended = new Promise((resolve) =>
      socket.on('close', () => {
        for (const { answer } of this.#waiting.values()) answer.reject(new PageGone('the browser closed the connection'))
        this.#waiting.clear()
        for (const session of this.#sessions) this.forget(session)
        resolve()
      }),
    )
  }

  get isOpen(): boolean {
    return this.#socket.readyState === WebSocket.OPEN
  }

  /** @throws CdpRefusal with Chromium's message; PageGone when the connection ends; WaitTimeout after `ms` */
  async send<T = Record<string, unknown>>(method: string, params: object = {}, sessionId?: string, ms = ANSWER_MS): Promise<T> {
    if (!this.isOpen) throw new PageGone('the browser closed the connection')
    const id = ++this.#lastId
    const answer = Promise.withResolvers<unknown>()
    this.#waiting.set(id, { sessionId, answer })
    this.#socket.send(JSON.stringify({ id, method, params, sessionId }))
    try {
      return (await within(method, ms, answer.promise)) as T
    } finally {
      this.#waiting.delete(id)
    }
  }

  async attach(targetId: string): Promise<string> {
    const { sessionId } = await this.send<{ sessionId: string }>('Target.attachToTarget', { targetId, flatten: true })
    this.#sessions.add(sessionId)
    return sessionId
  }

  /** Whether a session exists. Any client can close its target at any time. */
  has(sessionId: string): boolean {
    return this.#sessions.has(sessionId)
  }

  /** Sends the events of a session to `onEvent`, and replaces the listener before. Calls `onGone` if the session's target is closed. */
  listen(sessionId: string, onEvent: (event: CdpEvent) => void, onGone: () => void): void {
    this.#listeners.set(sessionId, { onEvent, onGone })
  }

  /** Ends a session on this side. Rejects its pending commands: when a target closes, Chromium never answers them. */
  forget(sessionId: string): void {
    this.#sessions.delete(sessionId)
    const listener = this.#listeners.get(sessionId)
    this.#listeners.delete(sessionId)
    listener?.onGone()
    for (const waiting of this.#waiting.values()) if (waiting.sessionId === sessionId) waiting.answer.reject(new PageGone('the hidden page was closed'))
  }

  /** Ends the connection. Chromium then closes the hidden targets created over it. */
  close(): void {
    this.#socket.terminate()
  }

  #onMessage(message: Message): void {
    if (message.id === undefined) {
      if (message.method === 'Target.detachedFromTarget') this.forget(String(message.params.sessionId))
      else this.#listeners.get(message.sessionId ?? '')?.onEvent(message)
      return
    }
    const answer = this.#waiting.get(message.id)?.answer
    if (message.error) answer?.reject(new (GONE.test(message.error.message) ? PageGone : CdpRefusal)(message.error.message))
    else answer?.resolve(message.result)
  }
}

export async function connectCdp(port: number, path: string): Promise<CdpConnection> {
  const socket = new WebSocket(`ws://127.0.0.1:${port}${path}`, { perMessageDeflate: false, maxPayload: 0 })
  try {
    await within('CDP for curl', CONNECT_MS, once(socket, 'open'))
  } catch (error) {
    socket.on('error', () => {}).terminate()
    throw error
  }
  return new CdpConnection(socket)
}
