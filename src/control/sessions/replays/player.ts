// The player: a page for people who have the address of a replay. It opens that replay and nothing else.
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Log } from '../../../base/log.ts'
import { fault } from '../../../http/fault.ts'
import type { Bytes } from '../../../http/route.ts'
import { HTML, pageHeaders, type Message, type Pages } from '../../service/dashboard/pages.ts'
import type { EventsShown } from '../telemetry/shown/contract.ts'
import type { ReplayEvents } from './events.ts'
import type { Replays } from './replays.ts'
import type { FoundReplay, ReplayRow } from './rows.ts'

/** Any page may frame the player. Its address holds the token, so no referrer is sent. */
const HEADERS = pageHeaders('any', { 'media-src': "'self'" })
/** While a video is being made the page checks again at this interval. */
const RELOAD_SECONDS = 3

/** Limit on reading events. */
const READ_MS = 20_000

type ViewRequest = FastifyRequest<{ Params: { id: string; seq?: string }; Querystring: { jwt?: string; after?: string } }>
type Viewed = FoundReplay & { events: EventsShown }

interface PlayerSettings {
  replays: Pick<Replays, 'viewed' | 'video'>
  events: ReplayEvents
  pages: Pages
  log: Log
}

/** Adds the page, its video and its events. It is for people, so it is not part of the API. */
export function servePlayer(app: FastifyInstance, { replays, events, pages, log }: PlayerSettings): void {
  const config = { id: 'player' }
  /** The replay that a link names. */
  const viewed = async (request: ViewRequest): Promise<Viewed> => {
    const row = await replays.viewed(request.params.id, request.query.jwt)
    request.caller = { by: { kind: 'link', id: row.id }, project: row.project }
    return row
  }
  app.get('/replays/:id/view', { config: { ...config, route: '/replays/{id}/view' } }, async (request: ViewRequest, reply) => {
    void reply.headers(HEADERS).type(HTML)
    const row = await viewed(request).catch(() => undefined)
    if (!row) return reply.code(404).send(await pages.message(UNKNOWN))
    if (row.state !== 'ready') return reply.header('refresh', RELOAD_SECONDS).send(await pages.message(unfinished(row)))
    if (row.bytes === 0) return reply.send(await pages.message(EMPTY))
    // When they cannot be read the video plays all the same.
    const hasEvents = await events.some(row, leaving(reply)).catch((err: unknown) => {
      if (!reply.raw.destroyed) log.error({ err, replay: row.id }, 'the events of a replay cannot be read; it is shown without them')
      return false
    })
    const started = row.started_at!
    const data = { id: row.id, started: started.getTime(), clock: row.clock_started_at, activity: row.activity, hasEvents }
    return reply.send(await pages.render('player', { title: `Replay of ${started.toISOString()}`, data }))
  })
  // Everything in them comes from the session: a page of another site that asked for them by a script would get nothing that it could run.
  const answer = (reply: FastifyReply, found: object) => reply.headers(HEADERS).send(found)
  app.get('/replays/:id/events', { config: { ...config, route: '/replays/{id}/events' } }, async (request: ViewRequest, reply) =>
    answer(reply, await events.page(await viewed(request), numberOf('after', request.query.after ?? '0'), leaving(reply))),
  )
  app.get('/replays/:id/events/:seq', { config: { ...config, route: '/replays/{id}/events/{seq}' } }, async (request: ViewRequest, reply) =>
    answer(reply, await events.one(await viewed(request), numberOf('seq', request.params.seq!), leaving(reply))),
  )
  app.get('/replays/:id/video', { config: { ...config, route: '/replays/{id}/video' } }, async (request: ViewRequest, reply) => {
    const row = await viewed(request)
    return send(reply, await replays.video(row, request.headers.range))
  })
}

/** Aborts when the viewer leaves, or after a time in which an archive of any length answers. */
function leaving({ raw }: FastifyReply): AbortSignal {
  const gone = new AbortController()
  raw.on('close', () => gone.abort(fault.clientClosed()))
  return AbortSignal.any([gone.signal, AbortSignal.timeout(READ_MS)])
}

/** The number of an event. @throws 400 */
function numberOf(field: string, text: unknown): number {
  if (typeof text !== 'string' || !/^\d{1,15}$/.test(text)) throw fault.field(field, 'must be the number of an event')
  return Number(text)
}

function send(reply: FastifyReply, { body, status = 200, headers }: Bytes): FastifyReply {
  if (reply.request.method === 'HEAD' && 'destroy' in body) body.on('error', () => {}).destroy()
  return reply
    .code(status)
    .headers({ ...HEADERS, ...headers })
    .type('video/mp4')
    .send(reply.request.method === 'HEAD' ? '' : body)
}

const UNKNOWN: Message = { title: 'No such replay', text: 'This replay does not exist. It may have been deleted, or the address is incomplete.' }
const EMPTY: Message = { title: 'Nothing was recorded', text: 'The session ended before the first picture was stored.' }

const unfinished = ({ state, started_at: at }: ReplayRow): Message => ({
  title: state === 'finished' ? 'Almost ready' : 'Recording',
  text: `It was started at ${at!.toUTCString()}. This page opens the video when the recording is finished.`,
})
