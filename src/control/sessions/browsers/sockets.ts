// WebSockets of a session: CDP and BiDi, spliced to the agent. They end with the session and report the reason.
import { addAbortListener } from 'node:events'
import type { OutgoingHttpHeaders } from 'node:http'
import { PUBLIC_SOCKETS, SOCKETS } from '../../../agent/session/contract.ts'
import type { Log } from '../../../base/log.ts'
import { within } from '../../../base/wait.ts'
import { upgradeTo } from '../../../http/endpoint.ts'
import { fault } from '../../../http/fault.ts'
import { pathTo, type AcquiredSession } from '../../../http/route.ts'
import { splice, type CloseReason } from '../../../http/splice.ts'
import { completeHandshake, handshakeHeaders, type UpgradeCall, type UpgradeHandler } from '../../../http/upgrade.ts'
import type { Browsers } from './browsers.ts'
import type { EndReason, EndStep } from './end-step.ts'
import type { Connection } from './standby.ts'
import type { SessionTokens } from './tokens.ts'

/**
 * Why a WebSocket is closed: its session ends; or only this replica stops (`restart`), and the client finds the session at another one; or a person who helped
 * a login may only watch from now on, by the same link (`step_over`).
 */
type ClosedBy = EndReason | 'restart' | 'step_over'

/** WebSocket close codes by reason; 4000-4999 are free for applications, 1001 means that the server goes away, 1012 that it starts again. */
const CODES: Record<ClosedBy, number> = {
  deleted: 4001,
  timeout: 4002,
  crashed: 4003,
  abandoned: 4001,
  lost: 4003,
  shutdown: 1001,
  disk_limit: 4003,
  memory_limit: 4003,
  browser_failed: 4003,
  evicted: 4003,
  node_lost: 4003,
  surplus: 4001, // of a browser that no session has claimed, so no client gets it
  released: 4001, // given back to its pool
  restart: 1012,
  step_over: 1012,
}

/** Most WebSockets of one session at the same time: CDP, BiDi and live view. Each uses two descriptors of the service. */
const MAX_SOCKETS = 64
/**
 * Most of these that use a live view's link, so that people who may only watch do not keep the session's own clients out. It is larger than the number of
 * viewers that the agent serves, because the agent tells a viewer above its limit the reason.
 */
const MAX_VIEWERS = 40
const FULL_RETRY_SECONDS = 1
/** How long a client whose connection has ended waits for the reason. */
const REASON_MS = 1_000

/** The credential of a WebSocket: the session's own token, or a link to its live view. */
type By = 'token' | 'link'

export interface SessionSockets {
  handlers: Record<string, UpgradeHandler>
  /**
   * Connects a client that has shown its token to a WebSocket of the session's agent. `path`: one of the agent's contracts. The session counts as in use. When
   * the session ends, the client gets the reason.
   */
  join(
    session: AcquiredSession,
    path: string,
    call: UpgradeCall,
    how?: { by: By; /** Closes it when it aborts. */ until?: AbortSignal | undefined },
  ): Promise<void>
}

interface OpenSocket {
  by: By
  /** The acquisition of the caller who opened it. */
  lease: number
}

/** The open WebSockets of each session: the function that closes each one, and its credential. */
export type OpenSockets = Map<string, Map<(reason: ClosedBy) => void, OpenSocket>>

/** Closes the WebSockets of a session that this process holds. With `lease`: only those of one caller. */
export const closeOwnSockets = (open: OpenSockets, id: string, reason: EndReason, lease?: number): void =>
  open.get(id)?.forEach((socket, close) => {
    if (lease === undefined || socket.lease === lease) close(reason)
  })

/** Closes all of them: this replica stops and leaves the sessions to others. The server's stop waits for its last connection. */
export const closeForRestart = (open: OpenSockets): void => open.forEach((sockets) => sockets.forEach((_, close) => close('restart')))

/** Whether a text in another replica's notice is an end reason. */
export const isReason = (text: string | undefined): text is EndReason =>
  text !== undefined && text !== 'restart' && text !== 'step_over' && Object.hasOwn(CODES, text)

/** The step of a session's end that closes its WebSockets. `tellOthers` tells other replicas to close theirs. */
export const closeSockets = (open: OpenSockets, tellOthers: (id: string, reason: EndReason) => Promise<void>): EndStep => ({
  name: 'clients',
  limitMs: 1_000,
  mayFail: true,
  async run({ id, reason }) {
    closeOwnSockets(open, id, reason)
    await tellOthers(id, reason)
    return 'nothing' as const // a repeated notice does no harm
  },
})

/** Without compression: standby.ts looks for commands that have no answer, and Chromium would compress even small answers. */
const plain = ({ 'sec-websocket-extensions': _, ...headers }: OutgoingHttpHeaders): OutgoingHttpHeaders => headers

/** `open` is empty at first. */
export function sessionSockets(browsers: Browsers, tokens: SessionTokens, open: OpenSockets, log: Log): SessionSockets {
  const join: SessionSockets['join'] = async (session, path, { request, socket, head, signal, known, accepted }, { by, until } = { by: 'token' }) => {
    const project = await browsers.projectOf(session.id)
    known(project === undefined ? undefined : { by: { kind: by === 'token' ? 'session' : 'link', id: session.id }, project })
    // By a link, a person sees the screen, where fields of logins are masked.
    const target = await browsers.reach(undefined, session, { isForLogins: by === 'link' })
    const { id } = target
    const sockets = open.get(id) ?? new Map<(reason: ClosedBy) => void, OpenSocket>()
    const viewers = [...sockets.values()].filter((other) => other.by === 'link').length
    if (sockets.size >= MAX_SOCKETS || (by === 'link' && viewers >= MAX_VIEWERS)) {
      target.release()
      const what = sockets.size >= MAX_SOCKETS ? `${MAX_SOCKETS} WebSockets` : `${MAX_VIEWERS} WebSockets of live views`
      throw fault.tooMany(`this browser has ${what} already, its limit`, FULL_RETRY_SECONDS)
    }
    const ending = new AbortController()
    let given: ClosedBy | undefined
    const close = (reason: ClosedBy) => {
      given = reason
      ending.abort()
    }
    /** The agent may close a connection before another replica's notice of the reason arrives; the row has the reason earlier than both. */
    const why = async (): Promise<CloseReason> => {
      const found =
        given ??
        (await within('the reason of an end', REASON_MS, browsers.endOf(session)).catch((err: unknown) => {
          log.warn({ err, browser: id }, 'why a WebSocket ended could not be found out; its client is told that the browser crashed')
          return undefined
        }))
      const reason = given ?? found ?? 'crashed'
      return { code: CODES[reason], reason: { reason } }
    }
    open.set(id, sockets.set(close, { by, lease: session.lease }))
    using _until = until && addAbortListener(until, () => close('step_over'))
    let connection: Connection | undefined
    try {
      const upstream = await upgradeTo(target.endpoint, path, plain(handshakeHeaders(request)), AbortSignal.any([signal, ending.signal])).catch(
        (error: unknown) => {
          throw fault.unavailable('the browser did not take the connection', error)
        },
      )
      await accepted()
      completeHandshake(socket, upstream)
      // It is not known what a silent client of CDP or BiDi waits for, so its connection keeps the session awake for a time of its own.
      if (by === 'token') connection = target.connected()
      if (head.length > 0) {
        connection?.sent(head)
        upstream.socket.write(head)
      }
      await splice(socket, upstream.socket, upstream.head, why, ending.signal, connection)
    } finally {
      connection?.[Symbol.dispose]()
      target.release()
      sockets.delete(close)
      if (sockets.size === 0) open.delete(id)
      log.debug({ browser: id, path }, 'a WebSocket ended')
    }
  }

  const handler =
    (path: (params: Record<string, string>) => string): UpgradeHandler =>
    async (call) => {
      const leased = await tokens.check(call.query.jwt, call.params.id!, browsers)
      await join(leased, path(call.params), call)
    }

  return {
    handlers: {
      [PUBLIC_SOCKETS.cdp]: handler(() => SOCKETS.cdp),
      [PUBLIC_SOCKETS.cdpPage]: handler(({ target }) => pathTo(SOCKETS.cdpPage, { target: target! })),
      [PUBLIC_SOCKETS.bidi]: handler(() => SOCKETS.bidi),
    },
    join,
  }
}
