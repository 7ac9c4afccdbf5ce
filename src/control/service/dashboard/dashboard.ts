// The dashboard: its page at `/` and below `/dashboard`, and its files. The routes of its pages are in the browser (web/src).
import { randomBytes } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { fault } from '../../../http/fault.ts'
import type { MountContext } from '../../../http/mount.ts'
import type { Built, WebFile } from './files.ts'
import { homePage, homeText } from './home.ts'
import { pageHeaders } from './pages.ts'

const YEAR_SECONDS = 31_536_000
const NONCE = '__COB_NONCE__'

/** Style elements need the nonce: components and the terminal add some. Frames are only our own live view and player. */
const headers = (nonce: string) => ({
  ...pageHeaders('none', { 'style-src': `'self' 'nonce-${nonce}'`, 'font-src': "'self'", 'frame-src': "'self'", 'media-src': "'self' blob:" }),
  'cross-origin-opener-policy': 'same-origin',
})

const HOME_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

/** Adds the page, and the files that all pages load. They are for people, so they are not part of the API. */
export function serveDashboard(context: MountContext, built: Built): void {
  const { app, paths } = context
  async function page(request: FastifyRequest, reply: FastifyReply, otherwise: () => FastifyReply): Promise<FastifyReply> {
    void reply.headers({ vary: 'accept', 'cache-control': 'no-cache', 'x-content-type-options': 'nosniff', 'referrer-policy': 'no-referrer' })
    if (!wantsHtml(request)) return otherwise()
    const files = await built()
    void reply.type('text/html; charset=utf-8')
    if (!files) return reply.header('content-security-policy', HOME_POLICY).send(homePage())
    const nonce = randomBytes(16).toString('base64')
    return reply.headers(headers(nonce)).send(files.pages.get('index')!.replace(NONCE, nonce))
  }

  const config = { id: 'dashboard' }
  paths.set('/', new Set(['GET']))
  app.get('/', { config: { id: 'home' } }, (request, reply) =>
    page(request, reply, () =>
      reply
        .header('content-security-policy', HOME_POLICY)
        .type('text/plain; charset=utf-8')
        .send(homeText(context.origin(request, undefined))),
    ),
  )
  const below = (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> =>
    page(request, reply, () => {
      throw fault.noRoute('GET', request.url.split('?')[0]!)
    })
  app.get('/dashboard', { config }, below)
  app.get('/dashboard/*', { config }, async (request, reply) => {
    const name = (request.params as { '*': string })['*']
    const file = (await built())?.files.get(name)
    if (file) return send(request, reply, file, name.startsWith('assets/'))
    // Browsers also ask for a file with this header when somebody opens its address; the page must not be sent instead of an old file.
    if (name.startsWith('assets/')) throw fault.notFound('file', name)
    return below(request, reply)
  })
}

function send(request: FastifyRequest, reply: FastifyReply, file: WebFile, isNamedByContent: boolean): FastifyReply {
  const accepted = request.headers['accept-encoding'] ?? ''
  const [encoding, bytes] =
    file.brotli && /\bbr\b/.test(accepted) ? ['br', file.brotli] : file.gzip && /\bgzip\b/.test(accepted) ? ['gzip', file.gzip] : [undefined, file.plain]
  if (encoding !== undefined) void reply.header('content-encoding', encoding)
  return reply
    .headers({
      'cache-control': isNamedByContent ? `public, max-age=${YEAR_SECONDS}, immutable` : 'public, max-age=3600',
      'x-content-type-options': 'nosniff',
      'cross-origin-resource-policy': 'same-origin',
      // When an SVG file is opened, it is a document of its own.
      'content-security-policy': "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
      vary: 'accept-encoding',
    })
    .type(file.type)
    .send(bytes)
}

// Browsers accept text/html. curl and most libraries send */* or nothing, and their output is read in a terminal.
const wantsHtml = (request: FastifyRequest): boolean => /(^|[\s,])text\/html\s*(;|,|$)/i.test(request.headers.accept ?? '')
