// The hosted login page: what people open with the address of a login. It is the same page for every address; its script asks the public calls for everything else.
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { FastifyInstance } from 'fastify'
import { fault } from '../../../http/fault.ts'

/** The path of hosted pages. The next segment is the id of a connection; the code is in the query, which is never logged. */
export const HOSTED_PATH = '/auth/login'
const PARTS_PATH = '/auth/login-page'
const YEAR_SECONDS = 31_536_000

/** The address of a login for a person. Opening it uses the code up. Integrators add `success_url` and `error_url`. */
export const hostedPath = (connectionId: string, code: string): string =>
  `${HOSTED_PATH}/${encodeURIComponent(connectionId)}?${new URLSearchParams({ code }).toString()}`

/**
 * Only content of this origin, in no other page's frame. Scripts cannot make markup from text at all. There is no cross-origin-opener-policy: integrators that
 * open the page in a window of its own have to see when it is closed.
 */
const HEADERS = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; frame-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; " +
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-robots-tag': 'noindex',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': 'camera=(), geolocation=(), microphone=(), display-capture=()',
}

const file = (name: string): string => readFileSync(join(import.meta.dirname, 'page', name), 'utf8')

const SCRIPTS = ['login.js', 'dom.js', 'leave.js', 'question.js', 'session.js', 'texts.js']
/** What the page loads, by name. */
const PARTS = new Map([
  ['login.css', { type: 'text/css; charset=utf-8', content: file('login.css') }],
  ...SCRIPTS.map((name) => [name, { type: 'text/javascript; charset=utf-8', content: file(name) }] as const),
])
/** Changes with the parts. It is a part of their paths, so that also what one imports from another is of the same version. */
const TAG = createHash('sha256')
  .update(JSON.stringify([...PARTS]))
  .digest('hex')
  .slice(0, 16)
const AT = `${PARTS_PATH}/${TAG}`
const PAGE = file('login.html')
  .replaceAll('{{parts}}', AT)
  .replace('{{preloads}}', SCRIPTS.map((name) => `<link rel="modulepreload" href="${AT}/${name}" />`).join('\n    '))

/** Adds the page and its parts. It is for people, so it is not part of the API. */
export function serveHostedPage(app: FastifyInstance): void {
  const config = { id: 'hostedPage' }
  app.get(`${HOSTED_PATH}/:id`, { config }, (_request, reply) =>
    reply
      .headers({ ...HEADERS, 'cache-control': 'no-store' })
      .type('text/html; charset=utf-8')
      .send(PAGE),
  )
  app.get(`${PARTS_PATH}/:tag/:name`, { config }, (request, reply) => {
    const { tag, name } = request.params as { tag: string; name: string }
    const part = PARTS.get(name)
    if (tag !== TAG || !part) throw fault.notFound('file', name)
    return reply
      .headers({ ...HEADERS, 'cache-control': `public, max-age=${YEAR_SECONDS}, immutable` })
      .type(part.type)
      .send(part.content)
  })
}
