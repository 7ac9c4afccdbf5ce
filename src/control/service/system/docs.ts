// GET /docs: the documentation of this installation as a site, and the OpenAPI document as a page at /docs/api. Lists for agents are at /llms.txt and /llms-full.txt.
import type { FastifyReply, FastifyRequest } from 'fastify'
import { createReadStream } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { gunzip } from 'node:zlib'
import { fault } from '../../../http/fault.ts'
import type { MountContext } from '../../../http/mount.ts'
import type { BuiltPart } from './docs/build-program.ts'
import { ORIGIN } from './docs/build.ts'
import { site } from './docs/site.ts'

const COMMON = {
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-resource-policy': 'same-origin',
}
const HEADERS = {
  ...COMMON,
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; " +
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
  // Replicas of two versions may answer in turn, so nothing is used again without asking.
  'cache-control': 'no-cache',
  vary: 'accept-encoding',
}

const API_PAGE = `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>API reference · Cob</title><link rel="icon" href="data:,"><link rel="stylesheet" href="/docs/api/swagger-ui.css"></head>
<body><p style="margin:16px 20px;font-family:sans-serif"><a href="/docs">Cob docs</a></p><div id="ui"></div><script src="/docs/api/swagger-ui-bundle.js"></script><script src="/docs/api/start.js"></script></body>
</html>
`
const API_START = `SwaggerUIBundle({ url: '/openapi.json', dom_id: '#ui', deepLinking: true, tryItOutEnabled: true })\n`
/** Swagger UI has inline styles. */
const API_HEADERS = {
  ...COMMON,
  'content-security-policy':
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; object-src 'none'; base-uri 'none'; frame-ancestors 'none'",
}

/** Adds the pages. They are for people and their agents, so they are not part of the API. */
export function serveDocs(context: MountContext): void {
  const { app } = context
  const config = { id: 'docs' }
  const send = async (request: FastifyRequest, reply: FastifyReply) => {
    const parts = await site()
    const path = new URL(request.url, 'http://docs').pathname.replace(/(.)\/$/, '$1')
    const part = parts.get(path)
    if (part) return sendPart(request, reply, part, path === '/llms.txt' ? context.origin(request, undefined) : undefined)
    if (!/\btext\/html\b/.test(request.headers.accept ?? '')) throw fault.notFound('page', path)
    return sendPart(request, reply.code(404), parts.get('/docs/404')!)
  }
  for (const path of ['/docs', '/docs/*', '/llms.txt', '/llms-full.txt']) {
    if (!path.includes('*')) context.paths.set(path, new Set(['GET']))
    app.get(path, { config: { ...config, route: path } }, send)
  }

  const dist = dirname(createRequire(import.meta.url).resolve('swagger-ui-dist/swagger-ui.css'))
  app.get('/docs/api', { config }, (_request, reply) => reply.headers(API_HEADERS).type('text/html; charset=utf-8').send(API_PAGE))
  app.get('/docs/api/start.js', { config }, (_request, reply) => reply.headers(API_HEADERS).type('text/javascript; charset=utf-8').send(API_START))
  for (const [name, type] of [
    ['swagger-ui.css', 'text/css'],
    ['swagger-ui-bundle.js', 'text/javascript'],
  ] as const)
    app.get(`/docs/api/${name}`, { config }, (_request, reply) =>
      reply
        .headers(API_HEADERS)
        .type(`${type}; charset=utf-8`)
        .send(createReadStream(join(dist, name))),
    )
}

async function sendPart(request: FastifyRequest, reply: FastifyReply, { type, gzip, tag }: BuiltPart, origin?: string): Promise<FastifyReply> {
  void reply.headers(HEADERS).type(type)
  if (origin !== undefined) return reply.send((await promisify(gunzip)(gzip)).toString().replaceAll(ORIGIN, origin))
  // Weak: the same for the compressed answer and the plain one.
  const etag = `W/"${tag}"`
  void reply.header('etag', etag)
  if (reply.statusCode === 200 && request.headers['if-none-match']?.split(',').some((each) => each.trim() === etag)) return reply.code(304).send()
  if (!/\bgzip\b(?!\s*;\s*q=0(?:\.0*)?(?:\s*(?:,|$)))/.test(String(request.headers['accept-encoding'] ?? ''))) return reply.send(await promisify(gunzip)(gzip))
  return reply.header('content-encoding', 'gzip').send(Buffer.from(gzip.buffer, gzip.byteOffset, gzip.byteLength))
}
