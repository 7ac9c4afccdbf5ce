// GET /docs: the OpenAPI document as a page, from files of this installation only.
import { createReadStream } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import type { FastifyInstance } from 'fastify'

const PAGE = `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>Cob API</title><link rel="stylesheet" href="/docs/swagger-ui.css"></head>
<body><div id="ui"></div><script src="/docs/swagger-ui-bundle.js"></script><script src="/docs/start.js"></script></body>
</html>
`
const START = `SwaggerUIBundle({ url: '/openapi.json', dom_id: '#ui', deepLinking: true, tryItOutEnabled: true })\n`
const POLICY = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; object-src 'none'; frame-ancestors 'none'"

/** Adds the page. It is for people, so it is not part of the API. */
export function serveDocs(app: FastifyInstance): void {
  const dist = dirname(createRequire(import.meta.url).resolve('swagger-ui-dist/swagger-ui.css'))
  const headers = { 'content-security-policy': POLICY, 'x-content-type-options': 'nosniff' }
  const config = { id: 'docs' }
  app.get('/docs', { config }, (_request, reply) => reply.headers(headers).type('text/html; charset=utf-8').send(PAGE))
  app.get('/docs/start.js', { config }, (_request, reply) => reply.headers(headers).type('text/javascript; charset=utf-8').send(START))
  for (const [name, type] of [
    ['swagger-ui.css', 'text/css'],
    ['swagger-ui-bundle.js', 'text/javascript'],
  ] as const)
    app.get(`/docs/${name}`, { config }, (_request, reply) =>
      reply
        .headers(headers)
        .type(`${type}; charset=utf-8`)
        .send(createReadStream(join(dist, name))),
    )
}
