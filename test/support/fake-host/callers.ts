// Callers of many sessions: single calls, creates on a schedule, and CDP connections that reconnect.
import { once } from 'node:events'
import { Agent, request, type IncomingMessage } from 'node:http'
import { WebSocket } from 'ws'
import { sleep, until, within } from '../../../src/base/wait.ts'

/** The limit of one attempt of a call, and below it that of all attempts: replicas that restart on a busy machine do not answer for a while. */
const ATTEMPT_MS = 60_000
const CALL_MS = 240_000
const SOCKET_MS = 10_000
const AGAIN_MS = 50

export interface Answer {
  status: number
  text: string
}

/** What a caller knows of a session. */
export interface Kept {
  id: string
  cdpUrl: string
}

export interface Callers extends Disposable {
  /** Makes one attempt. @throws when the connection breaks */
  once(method: string, path: string, body?: object): Promise<Answer>
  /** Retries while connections break or answers are 503. @throws when no other answer comes in time */
  call(method: string, path: string, body?: object): Promise<Answer>
  /** The number of creates without an answer: their sessions may exist, but no caller knows them. */
  readonly lostCreates: number
  /** Creates a session. @throws when the service refuses it */
  create(options?: object): Promise<Kept>
}

/** Each call goes to the next of `urls`, over kept connections, or with `fresh` over a new one. */
export function callers(urls: readonly string[], key: string, { fresh = false } = {}): Callers {
  const agent = fresh ? undefined : new Agent({ keepAlive: true })
  const bases = urls.map((url) => new URL(url))
  let next = 0
  let lostCreates = 0
  const attempt: Callers['once'] = async (method, path, body) => {
    const { hostname, port } = bases[next++ % bases.length]!
    const text = body ? JSON.stringify(body) : undefined
    const headers = {
      authorization: `Bearer ${key}`,
      ...(text !== undefined && { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }),
    }
    const outgoing = request({ agent: agent ?? false, hostname, port, path, method, headers, signal: AbortSignal.timeout(ATTEMPT_MS) })
    outgoing.end(text)
    const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
    return { status: response.statusCode!, text: (await response.setEncoding('utf8').toArray()).join('') }
  }
  const call: Callers['call'] = (method, path, body) =>
    until(
      `an answer to ${method} ${path}`,
      CALL_MS,
      async () => {
        const answer = await attempt(method, path, body).catch(() => undefined)
        if (!answer && method === 'POST' && path === '/browsers') lostCreates++
        return answer !== undefined && answer.status !== 503 && answer
      },
      { everyMs: AGAIN_MS },
    )
  return {
    once: attempt,
    call,
    get lostCreates() {
      return lostCreates
    },
    async create(options = {}) {
      const { status, text } = await call('POST', '/browsers', { timeout_seconds: 3600, ...options })
      if (status !== 200) throw new Error(`POST /browsers answered ${status}: ${text}`)
      const { session_id: id, cdp_ws_url: cdpUrl } = JSON.parse(text) as { session_id: string; cdp_ws_url: string }
      return { id, cdpUrl }
    },
    [Symbol.dispose]: () => agent?.destroy(),
  }
}

/**
 * Starts `work` `count` times at the rate `perSecond`, even when earlier work is still running. Resolves when all work is done. `dueAt` is the scheduled time, by
 * performance.now().
 */
export async function onSchedule(perSecond: number, count: number, work: (dueAt: number, index: number) => Promise<void>): Promise<void> {
  const began = performance.now()
  const all: Promise<void>[] = []
  for (let index = 0; index < count; index++) {
    const dueAt = began + (index * 1000) / perSecond
    await sleep(Math.max(0, dueAt - performance.now()))
    const one = work(dueAt, index)
    one.catch(() => {}) // the last line rejects
    all.push(one)
  }
  await Promise.all(all)
}

/** A CDP connection of a session. It reconnects to the same URL when it breaks, until it is disposed. */
export interface Line extends Disposable {
  /** How many times it was opened. */
  readonly opened: number
  /**
   * Sends a command, and repeats it on the next connection when one breaks. Resolves with the milliseconds of the attempt that was answered. @throws when the session
   * has ended
   */
  roundTrip(): Promise<number>
}

export function cdpLine(url: string): Line {
  let socket: WebSocket | undefined
  let opened = 0
  let lastId = 0
  let ended: Error | undefined
  async function connected(): Promise<WebSocket> {
    if (socket?.readyState === WebSocket.OPEN) return socket
    socket?.terminate()
    const made = new WebSocket(url, { perMessageDeflate: false })
    made.on('error', () => {})
    made.on('close', (code) => {
      // This close code says that the session has ended.
      if (code >= 4000) ended = new Error(`the session has ended: ${code}`)
    })
    socket = made
    await within('a connection', SOCKET_MS, once(made, 'open'))
    opened++
    return made
  }
  async function attempt(): Promise<number> {
    const mine = await connected()
    const id = ++lastId
    const began = performance.now()
    const answered = new Promise<void>((resolve, reject) => {
      const done = (error?: Error) => {
        mine.off('message', hear).off('close', broke)
        if (error) reject(error)
        else resolve()
      }
      const hear = (data: Buffer) => (JSON.parse(data.toString()) as { id: number }).id === id && done()
      const broke = () => done(new Error('closed'))
      mine.on('message', hear).on('close', broke)
    })
    mine.send(`{"id":${id},"method":"Browser.getVersion"}`)
    await within('an answer', SOCKET_MS, answered)
    return performance.now() - began
  }
  return {
    get opened() {
      return opened
    },
    roundTrip: () =>
      until(
        'an answer over CDP',
        CALL_MS,
        async () => {
          if (ended) throw ended
          return attempt().catch(() => (socket?.terminate(), false as const))
        },
        { everyMs: AGAIN_MS },
      ),
    [Symbol.dispose]: () => socket?.terminate(),
  }
}
