// The agent's CDP client: commands with limits, sessions of targets, typed events. The transports: cdp-pipe.ts and cdp-socket.ts.
import { NO_LIMIT_MS, within } from '../../base/wait.ts'
import type { EventName, EventParams, Method, Params, Result } from './cdp-protocol.ts'

/** Chromium answers in microseconds when idle; with five starting at once on two cores it took 3 s. */
const ANSWER_MS = 30_000

/** Most commands without an answer. In a browser that hangs, each action leaves some; usually there are far fewer. Above this, commands fail at once. */
const MAX_PENDING = 10_000
/**
 * The same for all sessions together that Chromium has opened itself: pages determine their number and their commands. The rest is reserved for the agent's own
 * commands.
 */
const MAX_PENDING_ADOPTED = 2_000

/** Chromium refused a command, or its answer was too large. The message is Chromium's. */
export class CdpRefusal extends Error {
  readonly method?: Method
  constructor(message: string, method?: Method) {
    super(message)
    this.method = method
  }
}

/** The target of a command has ended, or the connection: a client closed the page, or the browser ended. */
export class CdpGone extends Error {}

/** Chromium's errors for a command to a target that is closing or closed (content/browser/devtools). */
const GONE = /^(Inspected target navigated or closed|Session with given id not found\.|Not attached to an active page|Target closed)/

/** One object for all sessions: nearly every action opens and ends one, and capturing a stack each time cost more than the rest. */
const SESSION_ENDED = new CdpGone('the session with the page has ended')

export interface SendOptions {
  /** The longest wait for the answer. */
  limitMs?: number
  /** Ends the wait for the answer. Chromium may still carry out the command. */
  signal?: AbortSignal
  /** Sends it even above the limit on pending commands. For commands without which a page would hang; their sender limits their number. */
  isUrgent?: boolean
}

/** The receiver of commands: the browser, or one session of a target. */
export interface CdpChannel {
  /**
   * Sends a command, before this returns. @throws CdpRefusal with Chromium's message; CdpGone when the target or the connection ends; WaitTimeout
   * after the limit; the signal's reason
   */
  send<M extends Method>(method: M, params: Params<M>, options?: SendOptions): Promise<Result<M>>
  /** Calls `listener` for each event, in the order in which Chromium sent the events. Ends with the channel; the returned function ends it earlier. */
  on<E extends EventName>(event: E, listener: (params: EventParams<E>) => void): () => void
}

/** A session of one target. `await using` detaches it. */
export interface CdpSession extends CdpChannel, AsyncDisposable {
  readonly targetId: string
  /** Aborts when the session has ended for any reason, after which it has no listeners and no pending commands. Its reason is a CdpGone. */
  readonly detached: AbortSignal
  /** Ends the session; resolves when Chromium has confirmed it, or the session had ended before. */
  detach(): Promise<void>
  /** Ends the session on this side, at once. For a target that is about to be closed: that ends the session in Chromium. */
  drop(): void
}

/** The connection to one run of Chromium. */
export interface Cdp extends CdpChannel {
  /** Aborts when the connection has ended for any reason. Its reason is a CdpGone. */
  readonly ended: AbortSignal
  /** Attaches to a target, in a session of its own. @throws as {@link CdpChannel.send} */
  session(targetId: string, options?: SendOptions): Promise<CdpSession>
  /**
   * Takes over a session that Chromium has opened itself, as announced by its event `Target.attachedToTarget`. Call it in the listener of that event: the
   * session's events follow at once. `by`: the session that got the event; this one ends with it. Without it: a session of the browser.
   */
  adopt(sessionId: string, targetId: string, by?: CdpSession): CdpSession
  /** Calls `listener` with the name of each event that was too large to read. The returned function stops this. */
  onLostEvent(listener: (method: string) => void): () => void
}

/** Callbacks from the transport to the client. */
export interface CdpReceiver {
  /** One message. An exception in a listener goes to the top-level handler, so the messages after this one are still read. */
  onMessage(text: string): void
  /** A message above the size limit: only its beginning. */
  onTooLarge(beginning: string): void
  /** The end of the connection. */
  onEnd(cause?: unknown): void
}

interface Pending {
  channel: Channel
  method: Method
  /** Reads the result in the same turn in which it arrives, before the next message. */
  read: (result: Record<string, unknown>) => unknown
  answer: PromiseWithResolvers<unknown>
}

interface Channel {
  sessionId?: string
  listeners: Map<string, Set<(params: never) => void>>
  end: AbortController
  /** Whether Chromium has opened it itself. */
  isAdopted: boolean
}

/** Makes a client over a transport. `write` sends a message; received ones are passed to the receiver. */
export function makeCdp(write: (text: string) => void): { cdp: Cdp; receiver: CdpReceiver } {
  const pending = new Map<number, Pending>()
  const sessions = new Map<string, Channel>()
  const browser = makeChannel()
  const lostListeners = new Set<(method: string) => void>()
  let lastId = 0
  let pendingAdopted = 0

  async function post(
    channel: Channel,
    method: Method,
    params: object,
    options: SendOptions = {},
    read: Pending['read'] = (result) => result,
  ): Promise<unknown> {
    const { limitMs = ANSWER_MS, signal, isUrgent = false } = options
    channel.end.signal.throwIfAborted()
    signal?.throwIfAborted()
    const [waiting, most] = channel.isAdopted ? [pendingAdopted, MAX_PENDING_ADOPTED] : [pending.size, MAX_PENDING]
    if (!isUrgent && waiting >= most) throw new Error(`${method}: the browser has not answered ${most} commands`)
    const id = ++lastId
    const answer = Promise.withResolvers<unknown>()
    pending.set(id, { channel, method, read, answer })
    if (channel.isAdopted) pendingAdopted++
    try {
      write(JSON.stringify({ id, method, params, sessionId: channel.sessionId }))
      return await within(method, limitMs, answer.promise, signal)
    } finally {
      pending.delete(id)
      if (channel.isAdopted) pendingAdopted--
    }
  }

  /** Ends a channel on this side. Rejects its pending commands: when a target closes, Chromium never answers them. */
  function end(channel: Channel, why: CdpGone): void {
    if (channel.end.signal.aborted) return
    if (channel.sessionId !== undefined) sessions.delete(channel.sessionId)
    channel.listeners.clear()
    channel.end.abort(why)
    for (const one of pending.values()) if (one.channel === channel) one.answer.reject(why)
  }

  function channelOf(channel: Channel): CdpChannel {
    const { listeners, end: ended } = channel
    return {
      send: (method, params, options) => post(channel, method, params, options) as never,
      on(event, listener) {
        if (ended.signal.aborted) return () => {}
        const all = listeners.get(event) ?? new Set()
        listeners.set(event, all.add(listener))
        return () => void listeners.get(event)?.delete(listener)
      },
    }
  }

  function open(sessionId: string, targetId: string, isAdopted: boolean, by?: CdpSession): CdpSession {
    const channel = makeChannel(sessionId, isAdopted)
    sessions.set(sessionId, channel)
    const drop = () => end(channel, SESSION_ENDED)
    if (by) {
      by.detached.addEventListener('abort', drop)
      channel.end.signal.addEventListener('abort', () => by.detached.removeEventListener('abort', drop))
      if (by.detached.aborted) drop()
    }
    const detach = async () => {
      if (channel.end.signal.aborted) return
      try {
        // Detach it where it was opened: Chromium knows the session only there.
        const options = { isUrgent: isAdopted }
        await (by ? by.send('Target.detachFromTarget', { sessionId }, options) : post(browser, 'Target.detachFromTarget', { sessionId }, options))
      } catch (error) {
        // The target may have been closed meanwhile.
        if (!channel.end.signal.aborted) throw error
      } finally {
        drop()
      }
    }
    return { targetId, ...channelOf(channel), detached: channel.end.signal, detach, drop, [Symbol.asyncDispose]: detach }
  }

  function onAnswer(id: unknown, { result, error }: Record<string, unknown>): void {
    const waiting = pending.get(id as number)
    // The wait for this answer has already ended.
    if (!waiting) return
    pending.delete(id as number)
    const { answer, method, read } = waiting
    if (isObject(result)) return answer.resolve(read(result))
    const why = isObject(error) ? String(error.message) : 'the answer has no result'
    answer.reject(GONE.test(why) ? new CdpGone(why) : new CdpRefusal(why, method))
  }

  function onEvent(method: string, params: object, sessionId: unknown): void {
    if (method === 'Target.detachedFromTarget') {
      const gone = sessions.get((params as { sessionId: string }).sessionId)
      if (gone) end(gone, SESSION_ENDED)
    }
    const channel = sessionId === undefined ? browser : sessions.get(sessionId as string)
    for (const listener of channel?.listeners.get(method) ?? []) alone(() => listener(params as never))
  }

  const receiver: CdpReceiver = {
    onMessage: (text) =>
      alone(() => {
        const message: unknown = JSON.parse(text)
        if (!isObject(message)) throw new Error('Chromium sent a message that is not an object')
        if (message.id !== undefined) onAnswer(message.id, message)
        else onEvent(String(message.method), isObject(message.params) ? message.params : {}, message.sessionId)
      }),
    onTooLarge: (beginning) =>
      alone(() => {
        const [, id] = /^\{"id":(\d+),/.exec(beginning) ?? []
        if (id === undefined) {
          // Pages can cause events of any size, so this is no error of the agent.
          const [, method = 'unknown'] = /^\{"method":"([A-Za-z.]{1,100})"/.exec(beginning) ?? []
          for (const listener of lostListeners) alone(() => listener(method))
          return
        }
        const waiting = pending.get(Number(id))
        waiting?.answer.reject(new CdpRefusal('the answer is too large', waiting.method))
      }),
    onEnd(cause) {
      const why = new CdpGone('the browser closed the connection', { cause })
      for (const session of sessions.values()) end(session, why)
      end(browser, why)
    },
  }

  const cdp: Cdp = {
    ...channelOf(browser),
    ended: browser.end.signal,
    async session(targetId, { limitMs = ANSWER_MS, signal } = {}) {
      signal?.throwIfAborted()
      // Chromium opens the session even when nobody waits for it any more. End it then.
      const attached = post(browser, 'Target.attachToTarget', { targetId, flatten: true }, { limitMs: NO_LIMIT_MS }, ({ sessionId }) =>
        open(String(sessionId), targetId, false),
      )
      try {
        return (await within('Target.attachToTarget', limitMs, attached, signal)) as CdpSession
      } catch (error) {
        attached.then((session) => (session as CdpSession).detach()).catch(() => {}) // it was not attached, or its target has ended
        throw error
      }
    },
    adopt: (sessionId, targetId, by) => open(sessionId, targetId, true, by),
    onLostEvent(listener) {
      lostListeners.add(listener)
      return () => void lostListeners.delete(listener)
    },
  }
  return { cdp, receiver }
}

const makeChannel = (sessionId?: string, isAdopted = false): Channel => ({ sessionId, listeners: new Map(), end: new AbortController(), isAdopted })

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null && !Array.isArray(value)

/** Runs `work`. Its exception goes to the top-level handler. */
function alone(work: () => void): void {
  try {
    work()
  } catch (error) {
    queueMicrotask(() => {
      throw error
    })
  }
}
