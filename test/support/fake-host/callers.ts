// Callers of many sessions: one call at a time, creates on a schedule, CDP connections that are opened again.
import { once } from 'node:events'
import { Agent, request, type IncomingMessage } from 'node:http'
import { WebSocket } from 'ws'
import { sleep, until, within } from '../../../src/base/wait.ts'

/** Limit on one attempt of a call, and on all of them together: replicas that start again on a busy machine answer nothing for a while. */
const ATTEMPT_MS = 60_000
const CALL_MS = 240_000
const SOCKET_MS = 10_000
const AGAIN_MS = 50

export interface Answer {
  status: number
  text: string
}

/** What a caller keeps of a session. */
export interface Kept {
  id: string
  cdpUrl: string
}

export interface Callers extends Disposable {
  /** One attempt. @throws when the connection breaks */
  once(method: string, path: string, body?: object): Promise<Answer>
  /** Asks again while connections break or answers are 503. @throws when there is no other answer in time */
  call(method: string, path: string, body?: object): Promise<Answer>
  /** How many creates had no answer: their sessions may exist, and nobody knows them. */
  readonly lostCreates: number
  /** Creates a session. @throws when it is refused */
  create(options?: object): Promise<Kept>
}

/** Calls go to the next of `urls` each time: over connections that are kept, or (`fresh`) each over one of its own. */
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

/** Does `work` `perSecond` times a second, for so many times, whether or not earlier ones are done; resolves when all are. `dueAt` is when it was due, by performance.now(). */
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

/** A CDP connection of a session, opened again at the same URL whenever it breaks, until it is disposed. */
export interface Line extends Disposable {
  /** How often it was opened. */
  readonly opened: number
  /** Sends a command, again on the next connection when one breaks; resolves with the milliseconds of the attempt that was answered. @throws when the session has ended */
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
      // Told that the session has ended.
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
