// The player: a page for people who have the address of a replay. It opens that replay and nothing else.
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Log } from '../../../base/log.ts'
import { fault } from '../../../http/fault.ts'
import type { Bytes } from '../../../http/route.ts'
import type { EventsShown } from '../telemetry/shown/contract.ts'
import { clockOf, type ReplayEvents } from './events.ts'
import type { Replays } from './replays.ts'
import type { FoundReplay, ReplayRow } from './rows.ts'

/** Only content of this origin, in any page's frame. The address holds the token, so no referrer is sent. */
const HEADERS = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; media-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors *",
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'permissions-policy': 'camera=(), microphone=(), geolocation=()',
}
/** While a video is being made the page checks again at this interval. */
const RELOAD_SECONDS = 3

/** Limit on reading events. */
const READ_MS = 20_000

const file = (name: string): string => readFileSync(join(import.meta.dirname, name), 'utf8')

/** What the page loads besides its video, by name. */
const PARTS = {
  'player.js': ['text/javascript', file('player/player.js')],
  'player.css': ['text/css', file('player/player.css')],
  'events.js': ['text/javascript', file('../telemetry/page/events.js')],
  'events.css': ['text/css', file('../telemetry/page/events.css')],
} as const
/** Changes with the parts, so that no page meets those of another version in a cache. */
const TAG = createHash('sha256').update(JSON.stringify(PARTS)).digest('hex').slice(0, 12)
const part = (name: keyof typeof PARTS): string => `/replays/${name}?v=${TAG}`

type ViewRequest = FastifyRequest<{ Params: { id: string; seq?: string }; Querystring: { jwt?: string; after?: string } }>
type Viewed = FoundReplay & { events: EventsShown }

/** Adds the page, its parts, its video and its events. It is for people, so it is not part of the API. */
export function servePlayer(app: FastifyInstance, replays: Pick<Replays, 'viewed' | 'video'>, events: ReplayEvents, log: Log): void {
  const config = { id: 'player' }
  for (const [name, [type, content]] of Object.entries(PARTS))
    app.get(`/replays/${name}`, { config }, (_request, reply) =>
      reply
        .headers({ ...HEADERS, 'cache-control': 'public, max-age=3600' })
        .type(`${type}; charset=utf-8`)
        .send(content),
    )
  /** The replay that a link names. */
  const viewed = async (request: ViewRequest): Promise<Viewed> => {
    const row = await replays.viewed(request.params.id, request.query.jwt)
    request.caller = { by: { kind: 'link', id: row.id }, project: row.project }
    return row
  }
  app.get('/replays/:id/view', { config: { ...config, route: '/replays/{id}/view' } }, async (request: ViewRequest, reply) => {
    void reply.headers({ ...HEADERS, 'cache-control': 'no-store' }).type('text/html; charset=utf-8')
    const row = await viewed(request).catch(() => undefined)
    if (!row)
      return reply.code(404).send(page('No such replay', note('This replay does not exist.', 'It may have been deleted, or the address is incomplete.')))
    if (row.state !== 'ready') return reply.send(unfinished(row))
    // When they cannot be read the video plays all the same.
    const hasEvents = await events.some(row, leaving(reply)).catch((err: unknown) => {
      if (!reply.raw.destroyed) log.error({ err, replay: row.id }, 'the events of a replay cannot be read; it is shown without them')
      return false
    })
    return reply.send(player(row, hasEvents))
  })
  // Everything in them comes from the session: a page of another site that asked for them by a script would get nothing that it could run.
  const answer = (reply: FastifyReply, found: object) => reply.headers({ ...HEADERS, 'cache-control': 'no-store' }).send(found)
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

// All values in the page are made by the service: ids, times and numbers.
const page = (title: string, body: string, head = '') => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="color-scheme" content="dark">
<title>${title}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="${part('player.css')}">${head}
</head>
<body>
${body}
</body>
</html>
`

const note = (title: string, text: string) => `<main class="note"><h1>${title}</h1><p>${text}</p></main>`

const unfinished = (row: ReplayRow) =>
  page(
    'Replay being recorded',
    `<main class="note" aria-live="polite"><h1>${row.state === 'finished' ? 'Almost ready' : '<span class="live" aria-hidden="true"></span>Recording'}</h1>
<p>Started at <time datetime="${row.started_at!.toISOString()}">${row.started_at!.toUTCString()}</time>. This page opens the video when the recording is finished.</p></main>`,
    `\n<meta http-equiv="refresh" content="${RELOAD_SECONDS}">`,
  )

const player = (row: Viewed, hasEvents: boolean) =>
  row.bytes === 0
    ? page('Empty replay', note('Nothing was recorded.', 'The session ended before the first picture was stored.'))
    : page(
        `Replay of ${row.started_at!.toISOString()}`,
        `<main class="player" data-started="${row.started_at!.getTime()}" data-activity="${row.activity.join(' ')}" data-clock="${clockOf(row)}"${hasEvents ? ` data-list="${part('events.js')}"` : ''}>
<h1 class="hidden">Replay</h1>
<div class="screen">
<div class="stage"><video playsinline preload="metadata" tabindex="-1" aria-label="Recorded screen"></video>
<button class="big" type="button" aria-label="Play"><svg viewBox="0 0 24 24" aria-hidden="true"><path d="M8 5v14l11-7z"/></svg></button>
<p class="problem" role="alert" hidden>This browser cannot play the video. You can still download it.</p></div>
<div class="bar" role="group" aria-label="Controls">
<div class="line"><svg class="activity" preserveAspectRatio="none" aria-hidden="true"></svg><svg class="marks" preserveAspectRatio="none" aria-hidden="true"></svg><div class="done" aria-hidden="true"></div>
<input class="seek" type="range" min="0" max="1" step="any" value="0" aria-label="Position"><output class="tip" aria-hidden="true" hidden></output></div>
<button class="toggle" type="button" aria-label="Play" title="Play or pause (space)"><svg viewBox="0 0 24 24" aria-hidden="true"><path class="play" d="M8 5v14l11-7z"/><path class="pause" d="M6 5h4v14H6zM14 5h4v14h-4z"/></svg></button>
<span class="time"><output class="now">0:00</output> / <span class="all">0:00</span></span>
<time class="clock" title="Time of day on the screen"></time>
<label class="speed"><span class="hidden">Speed</span><select title="Speed"><option value="0.5">0.5×</option><option value="1" selected>1×</option><option value="2">2×</option><option value="4">4×</option><option value="8">8×</option></select></label>
<a class="download" download="replay-${row.id}.mp4" aria-label="Download" title="Download"><svg viewBox="0 0 24 24" aria-hidden="true"><path d="M11 4h2v9l3.5-3.5 1.4 1.4L12 16.8l-5.900-5.900 1.400-1.400L11 13zM5 18h14v2H5z"/></svg></a>
${hasEvents ? `<button class="list" type="button" aria-expanded="true" aria-controls="events" aria-label="Events" title="Events (e)"><svg viewBox="0 0 24 24" aria-hidden="true"><path d="M4 6h2v2H4zM8 6h12v2H8zM4 11h2v2H4zM8 11h12v2H8zM4 16h2v2H4zM8 16h12v2H8z"/></svg></button>` : ''}
<button class="full" type="button" aria-label="Full screen" title="Full screen (f)"><svg viewBox="0 0 24 24" aria-hidden="true"><path d="M5 5h6v2H7v4H5zM13 5h6v6h-2V7h-4zM5 13h2v4h4v2H5zM17 13h2v6h-6v-2h4z"/></svg></button>
</div>
</div>
${hasEvents ? '<section class="events" id="events" aria-label="Events"></section>' : ''}
</main>
<noscript><p class="problem">The player needs JavaScript. Without it, download the video over the API.</p></noscript>
<script src="${part('player.js')}" defer></script>`,
        hasEvents ? `\n<link rel="stylesheet" href="${part('events.css')}">` : '',
      )
