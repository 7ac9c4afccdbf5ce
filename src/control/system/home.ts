// GET /: what a person who opens the address sees, as a page in a browser and as text elsewhere.
import type { FastifyRequest } from 'fastify'
import { VERSION } from '../../base/version.ts'
import type { MountContext } from '../../http/mount.ts'

const POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

const PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Cob</title>
<link rel="icon" href="data:,">
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:40rem;margin:4rem auto;padding:0 1rem}code{font-size:.95em}dt{margin-top:.6rem}dd{margin:0}</style>
</head>
<body>
<h1>Cob</h1>
<p>This is a Cob service (version ${VERSION}): a browser cloud for AI agents. Programs create browsers here over HTTP, and drive and watch them.</p>
<p>Calls need an API key: <code>Authorization: Bearer &lt;key&gt;</code>. The operator of this service has it. The service prints it at its first start.</p>
<dl>
<dt><a href="/docs">/docs</a></dt><dd>how to use it: first steps, guides, settings</dd>
<dt><a href="/docs/api">/docs/api</a></dt><dd>every call, with a form to try it</dd>
<dt><a href="/openapi.json">/openapi.json</a></dt><dd>the same as an OpenAPI document</dd>
<dt><a href="/status">/status</a></dt><dd>the state of the parts of the service</dd>
</dl>
</body>
</html>
`

const text = (origin: string): string => `Cob ${VERSION}: a browser cloud for AI agents.

Calls need an API key:
  curl -X POST -H "Authorization: Bearer <key>" ${origin}/browsers
The operator of this service has the key. The service prints it at its first start.

  ${origin}/docs           how to use it (for agents: ${origin}/llms.txt)
  ${origin}/docs/api       every call, with a form to try it (open it in a browser)
  ${origin}/openapi.json   the same as an OpenAPI document
  ${origin}/status         the state of the parts of the service
`

/** Adds the page. It is for people, so it is not part of the API. */
export function serveHome(context: MountContext): void {
  context.paths.set('/', new Set(['GET']))
  context.app.get('/', { config: { id: 'home' } }, (request, reply) => {
    const html = wantsHtml(request)
    return reply
      .headers({ 'content-security-policy': POLICY, 'x-content-type-options': 'nosniff', 'cache-control': 'no-cache', vary: 'accept' })
      .type(`text/${html ? 'html' : 'plain'}; charset=utf-8`)
      .send(html ? PAGE : text(context.origin(request, undefined)))
  })
}

// Browsers accept text/html. curl and most libraries send */* or nothing, and their output is read in a terminal.
const wantsHtml = (request: FastifyRequest): boolean => /(^|[\s,])text\/html\s*(;|,|$)/i.test(request.headers.accept ?? '')
