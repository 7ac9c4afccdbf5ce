// GET /authorize: the page on which a person allows a program access. It is the same for every request; its script asks the service for everything else, with the header by
// which the cookie counts.
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fault } from '../../../http/fault.ts'
import type { MountContext } from '../../../http/mount.ts'

const PATH = '/authorize'
const PARTS_PATH = '/authorize/page'
const YEAR_SECONDS = 31_536_000

/** Nobody's frame: a person must see what they allow. */
const HEADERS = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; " +
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
}

const file = (name: string): string => readFileSync(join(import.meta.dirname, 'page', name), 'utf8')
const PARTS = new Map([
  ['authorize.css', { type: 'text/css; charset=utf-8', content: file('authorize.css') }],
  ['authorize.js', { type: 'text/javascript; charset=utf-8', content: file('authorize.js') }],
])
/** Changes with the parts, so that they may be kept for long. */
const TAG = createHash('sha256')
  .update(JSON.stringify([...PARTS]))
  .digest('hex')
  .slice(0, 16)
const PAGE = file('authorize.html').replaceAll('{{parts}}', `${PARTS_PATH}/${TAG}`)

/** Adds the page and its parts. It is for people, so it is not part of the API. */
export function serveConsentPage({ app, paths }: MountContext): void {
  const config = { id: 'consentPage' }
  paths.set(PATH, (paths.get(PATH) ?? new Set()).add('GET'))
  app.get(PATH, { config }, (_request, reply) =>
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
