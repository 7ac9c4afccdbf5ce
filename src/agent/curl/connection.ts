// A CDP connection of curl's own: what it makes goes when it closes, and large bodies do not hold up the agent's pipe.
import { once } from 'node:events'
import { WebSocket } from 'ws'
import { within } from '../../base/wait.ts'

/** Chromium accepts in a millisecond; busy with ten starts it took seconds. */
const CONNECT_MS = 10_000

/** Commands that wait for nothing but Chromium itself. */
const ANSWER_MS = 30_000
/** For commands that wait for a target on the internet, whose limits are the caller's: the longest that a timer can take. */
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

/** Chromium refused a command; the message is Chromium's. */
export class CdpRefusal extends Error {}

/** The hidden page has gone, at the word of a client of the session or with its browser. */
export class PageGone extends Error {}

/** Chromium's answers to a command for a target that goes or has gone (content/browser/devtools). */
const GONE = /^(Inspected target navigated or closed|Session with given id not found\.|Not attached to an active page|Target closed)/

export class CdpConnection {
  readonly #socket: WebSocket
  readonly #waiting = new Map<number, Waiting>()
  readonly #sessions = new Set<string>()
  readonly #listeners = new Map<string, Listener>()
  #lastId = 0
  /** Resolves when the connection has ended, for whatever reason. */
  readonly ended: Promise<void>

  constructor(socket: WebSocket) {
    this.#socket = socket
    socket.on('message', (data: Buffer) => this.#onMessage(JSON.parse(data.toString()) as Message))
    // A close follows, and says the same.
    socket.on('error', () => {})
    this.ended = new Promise((resolve) =>
      socket.on('close', () => {
        for (const { answer } of this.#waiting.values()) answer.reject(new PageGone('the browser closed the connection'))
        this.#waiting.clear()
        this.#sessions.clear()
        resolve()
      }),
    )
  }

  get isOpen(): boolean {
    return this.#socket.readyState === WebSocket.OPEN
  }

  /** Sends a command. @throws CdpRefusal with Chromium's message; an Error when the connection ends or nothing comes within `ms` */
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

  /** Opens a session with a target. */
  async attach(targetId: string): Promise<string> {
    const { sessionId } = await this.send<{ sessionId: string }>('Target.attachToTarget', { targetId, flatten: true })
    this.#sessions.add(sessionId)
    return sessionId
  }

  /** Whether a session is there: its target may go at any time, at any client's word. */
  has(sessionId: string): boolean {
    return this.#sessions.has(sessionId)
  }

  /** Events of a session go to `onEvent`, until another listener takes its place. `onGone` is called when the session's target goes meanwhile. */
  listen(sessionId: string, onEvent: (event: CdpEvent) => void, onGone: () => void): void {
    this.#listeners.set(sessionId, { onEvent, onGone })
  }

  /** Ends a session on this side. Chromium leaves what a session is still asked unanswered when its target goes. */
  forget(sessionId: string): void {
    this.#sessions.delete(sessionId)
    const listener = this.#listeners.get(sessionId)
    this.#listeners.delete(sessionId)
    listener?.onGone()
    for (const waiting of this.#waiting.values()) if (waiting.sessionId === sessionId) waiting.answer.reject(new PageGone('the hidden page was closed'))
  }

  /** Ends it; Chromium closes the hidden targets that it made. */
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

/** Connects to the browser at its debugging port on this loopback. */
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
