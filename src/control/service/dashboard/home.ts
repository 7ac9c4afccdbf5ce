// The answer of GET / without the dashboard: a page while nothing is built, and text for programs.
import { VERSION } from '../../../base/version.ts'

/** The page for a browser while the dashboard is not built. */
export const homePage = (): string => `<!doctype html>
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
<p>The dashboard is not built here. <code>script/setup</code> builds it; then reload this page.</p>
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

/** The text for a terminal. */
export const homeText = (origin: string): string => `Cob ${VERSION}: a browser cloud for AI agents.

Calls need an API key:
  curl -X POST -H "Authorization: Bearer <key>" ${origin}/browsers
The operator of this service has the key. The service prints it at its first start.

  ${origin}/               the dashboard (open it in a browser)
  ${origin}/docs           how to use it (for agents: ${origin}/llms.txt)
  ${origin}/docs/api       every call, with a form to try it (open it in a browser)
  ${origin}/openapi.json   the same as an OpenAPI document
  ${origin}/status         the state of the parts of the service
`
