// The HTTP side of the live view: its page, and the WebSocket below the token.
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { LIVE_SOCKETS } from '../../../agent/live/contract.ts'
import type { Endpoint } from '../../../http/endpoint.ts'
import { fault } from '../../../http/fault.ts'
import { sendEvents } from '../../../http/mount.ts'
import type { UpgradeHandler } from '../../../http/upgrade.ts'
import type { Log } from '../../../base/log.ts'
import type { AcquiredSession } from '../../../http/route.ts'
import { HTML, pageHeaders, type Pages } from '../../service/dashboard/pages.ts'
import type { EndReason } from '../browsers/end-step.ts'
import { isReason, type SessionSockets } from '../browsers/sockets.ts'
import type { StoredTelemetry } from '../telemetry/contract.ts'
import { liveEventLists } from './events.ts'
import { LIVE_PATH, type Access, type LiveLinks } from './links.ts'

/** The end reasons as texts for viewers. The page contains all of them, for a session that ends while the page is open. */
const ENDINGS: Record<EndReason, string> = {
  deleted: 'The owner of this session has ended it.',
  timeout: 'It timed out because nobody used it.',
  released: 'It was given back to its pool.',
  crashed: 'Its browser crashed.',
  browser_failed: 'Its browser did not start again.',
  memory_limit: 'It used more memory than it may.',
  disk_limit: 'It used more disk than it may.',
  evicted: 'The cluster took its place for other work.',
  node_lost: 'The machine that it ran on was lost.',
  lost: 'It was lost when the service crashed.',
  abandoned: 'It was no longer needed before it had started.',
  shutdown: 'The service was stopped.',
  surplus: 'It was one browser more than its pool wanted.',
}
const endingOf = (reason: string): string => (isReason(reason) ? ENDINGS[reason] : 'It is closed.')

/** The session and the rights that a token opens. */
type Found =
  | { state: 'running'; id: string; lease: number; access: Access; name: string; project: string | undefined; captured: readonly string[] }
  | { state: 'ended'; reason: string }
  | { state: 'unknown' }

export interface LiveViews {
  /** Adds the page. It is for people, so it is not part of the API. `known`: as in MountContext. */
  mount(app: FastifyInstance, known: (socket: object) => void): void
  handlers: Record<string, UpgradeHandler>
}

interface LiveSettings {
  /** The session's row, also after its end. */
  findSession(id: string): Promise<SessionRow | undefined>
  links: LiveLinks
  sockets: Pick<SessionSockets, 'join'>
  /** The agent of a running session; `ended` aborts when its caller has given it back to its pool. @throws 404 */
  reach(session: AcquiredSession): Promise<{ endpoint: Endpoint; release: () => void; ended?: AbortSignal | undefined }>
  /** For a login: a signal that aborts when no person may act in its browser any more; undefined when nobody may act now. */
  whileActing(flowId: string, signal: AbortSignal): Promise<AbortSignal | undefined>
  pages: Pages
  log: Log
}

interface SessionRow {
  state: string
  name: string | null
  end_reason: string | null
  project_id: string | null
  lease: number
  auth_flow_id: string | null
  options: { telemetry?: StoredTelemetry | undefined }
}

export function makeLiveViews({ findSession, links, sockets, reach, whileActing, pages, log }: LiveSettings): LiveViews {
  const open = liveEventLists()

  async function find(token: string): Promise<Found> {
    const claims = links.read(token)
    if (!claims) return { state: 'unknown' }
    const row = await findSession(claims.id)
    if (!row) return { state: 'ended', reason: 'deleted' }
    // The caller of the pool for whom the link was made has given the browser back.
    if (row.lease !== claims.lease || row.state === 'warm' || row.state === 'releasing') return { state: 'ended', reason: 'released' }
    if (row.state === 'running') {
      const captured = row.options.telemetry?.categories ?? []
      return { state: 'running', ...claims, name: row.name ?? 'Live view', project: row.project_id ?? undefined, captured }
    }
    return { state: 'ended', reason: row.end_reason ?? 'deleted' }
  }

  /** Any site may frame the page. */
  function guarded(request: FastifyRequest, reply: FastifyReply): FastifyReply {
    // In some browsers, 'self' does not include WebSockets.
    const sockets = /^[\w.:[\]-]+$/.test(request.host) ? ` ws://${request.host} wss://${request.host}` : ''
    return reply.headers(pageHeaders('any', { 'connect-src': `'self'${sockets}` }))
  }

  async function page(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const { token } = request.params as { token: string }
    const found = await find(token)
    guarded(request, reply).type(HTML)
    if (found.state === 'unknown')
      return reply.code(404).send(await pages.message({ title: 'No such live view', text: 'This link is not valid. Part of it may be missing.' }))
    if (found.state === 'ended') return reply.code(410).send(await pages.message({ title: 'This session has ended', text: endingOf(found.reason) }))
    request.caller = { by: { kind: 'link', id: found.id }, project: found.project }
    const watch = links.path(found, 'watch')
    // Redirect to an address without control: people may copy the address from the address bar.
    if (found.access !== 'watch' && asksToWatch(request.query)) return reply.redirect(watch, 303)
    const data = { title: found.name, base: links.path(found, found.access), endings: ENDINGS, ...(found.access !== 'watch' && { watch }) }
    return reply.send(await pages.render('live', { title: found.name, data }))
  }

  async function state(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const found = await find((request.params as { token: string }).token)
    const status = { running: 200, ended: 410, unknown: 404 }[found.state]
    return guarded(request, reply)
      .code(status)
      .send({ state: found.state, ...(found.state === 'ended' && { reason: found.reason, message: endingOf(found.reason) }) })
  }

  /** The list of events. It only watches: while it is open, the session may time out or sleep. */
  async function events(request: FastifyRequest, reply: FastifyReply, known: (socket: object) => void): Promise<FastifyReply> {
    const found = await find((request.params as { token: string }).token)
    if (found.state !== 'running') return state(request, reply)
    known(request.raw.socket)
    request.caller = { by: { kind: 'link', id: found.id }, project: found.project }
    const { endpoint, release, ended } = await reach(found)
    release()
    const gone = new AbortController()
    reply.raw.on('close', () => gone.abort(fault.clientClosed()))
    // The viewer may have left while the session was looked up.
    if (reply.raw.destroyed || request.raw.socket.destroyed) gone.abort(fault.clientClosed())
    const signal = ended ? AbortSignal.any([gone.signal, ended]) : gone.signal
    const shown = found.access === 'control' && !asksToWatch(request.query) ? 'full' : 'brief'
    const messages = open({ id: found.id, categories: found.captured, endpoint, shown }, signal)
    return sendEvents(guarded(request, reply), messages, signal, log)
  }

  return {
    mount(app, known) {
      const config = { id: 'liveView' }
      app.get(`${LIVE_PATH}/:token`, { config: { ...config, route: `${LIVE_PATH}/{token}` } }, page)
      app.get(`${LIVE_PATH}/:token/state`, { config }, state)
      app.get(`${LIVE_PATH}/:token/events`, { config }, (request, reply) => events(request, reply, known))
    },
    handlers: {
      [`${LIVE_PATH}/{token}/socket`]: async (call) => {
        const claims = links.read(call.params.token!)
        if (!claims) throw fault.unauthorized("the live view's token is not valid")
        const mayControl = claims.access !== 'watch' && !asksToWatch(call.query)
        const flow = mayControl && claims.access === 'act' ? ((await findSession(claims.id))?.auth_flow_id ?? undefined) : undefined
        const until = flow === undefined ? undefined : await whileActing(flow, call.signal)
        const control = mayControl && (claims.access === 'control' || until !== undefined)
        await sockets.join(claims, control ? LIVE_SOCKETS.control : LIVE_SOCKETS.watch, call, { by: 'link', until })
      },
    },
  }
}

/** Whether the query has `readOnly=true`, or any value that is not clearly "no": when in doubt, the viewer may only watch. */
function asksToWatch(query: unknown): boolean {
  const { readOnly } = query as { readOnly?: unknown }
  return readOnly !== undefined && readOnly !== 'false'
}
