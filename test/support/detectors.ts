// A server for test/pages/detectors.html, which receives its findings, and browsers that open the page: one that a person started, and sessions.
import { readFileSync } from 'node:fs'
import { createServer, type IncomingMessage } from 'node:http'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { FILLING, startDisplay } from '../../bench/bare.ts'
import { launch, ownFolder } from '../../bench/programs.ts'
import { PACKAGE_DIR } from '../../src/base/paths.ts'
import { until, within } from '../../src/base/wait.ts'
import type { Cloud } from './cloud.ts'
import { runInside } from './inside.ts'
import { serveSockets } from './upstreams.ts'

/** The limit for the page's checks, which take about ten seconds on a busy machine. */
const FOUND_MS = 60_000

/** The page's findings by name. */
export type Findings = Record<string, unknown>

export interface Detectors extends AsyncDisposable {
  port: number
  /** The page's address, the same for every browser: each reaches the server on its own loopback. The origin is secure, so that pages can use every API. */
  url: string
  /** The findings that the page sends next. Call this before the page is opened. */
  next(): Promise<Findings>
}

/** The detectors from npm packages, as files below node_modules. */
const PACKAGES: Record<string, string> = {
  '/botd.js': '@fingerprintjs/botd/dist/botd.esm.js',
  '/fpscanner.js': 'fpscanner/dist/fpScanner.es.js',
}
const SERVICE_WORKER = 'onmessage = ({ data, ports }) => ports[0].postMessage(eval(data))'

/** The headers of a request in order, without those that name the server or depend on the request. */
const headersOf = ({ rawHeaders }: IncomingMessage): string =>
  JSON.stringify(
    rawHeaders.flatMap((name, index) =>
      index % 2 === 1 || /^(host|referer|origin|content-length|if-none-match)$/i.test(name) ? [] : [`${name}: ${rawHeaders[index + 1]}`],
    ),
  )

export async function serveDetectors(): Promise<Detectors> {
  let pings = 0
  let found = Promise.withResolvers<Findings>()
  const files: Record<string, (request: IncomingMessage) => [type: string, body: string] | Promise<[string, string]>> = {
    '/': (request) => {
      pings = 0
      const page = readFileSync(join(PACKAGE_DIR, 'test/pages/detectors.html'), 'utf8')
      return ['text/html; charset=utf-8', page.replace('<body', `<script type="application/json" id="headers">${headersOf(request)}</script><body`)]
    },
    '/headers': (request) => ['application/json', headersOf(request)],
    '/service-worker.js': () => ['text/javascript', SERVICE_WORKER],
    '/ping': () => ['text/plain', String(++pings)],
    '/pings': () => ['application/json', String(pings)],
    '/found': async (request) => {
      found.resolve(JSON.parse(await text(request)) as Findings)
      return ['text/plain', '']
    },
  }
  for (const [path, file] of Object.entries(PACKAGES)) files[path] = () => ['text/javascript', readFileSync(join(PACKAGE_DIR, 'node_modules', file), 'utf8')]
  const server = createServer((request, reply) => {
    const file = files[new URL(request.url ?? '/', 'http://localhost').pathname]
    if (!file) return void reply.writeHead(404).end()
    Promise.resolve(file(request)).then(
      ([type, body]) => reply.setHeader('content-type', type).setHeader('cache-control', 'no-store').end(body),
      () => reply.destroy(),
    )
  })
  const served = await serveSockets(server)
  const { port } = served
  return {
    ...served,
    url: `http://127.0.0.1:${port}/`,
    next() {
      found = Promise.withResolvers()
      return within('the findings of the page', FOUND_MS, found.promise)
    },
  }
}

/**
 * The findings in a browser that a person starts: Debian's own command, no debugging port or pipe, on a display of the same size. Only software WebGL is switched on,
 * as in sessions: without a GPU a browser would have no WebGL.
 */
export async function findingsByHand(detectors: Detectors): Promise<Findings> {
  const signal = AbortSignal.timeout(FOUND_MS)
  await using display = await startDisplay(signal)
  using home = ownFolder()
  const next = detectors.next()
  await using _browser = launch(
    '/usr/bin/chromium',
    ['--no-first-run', ...FILLING, '--enable-unsafe-swiftshader', detectors.url],
    home.path,
    { DISPLAY: display.name },
    ['ignore', 'ignore', 'ignore'],
  )
  return await next
}

/** Forwards the session's loopback to the server. */
export async function bringDetectors(cloud: Cloud, id: string, { port }: Detectors): Promise<void> {
  await cloud.client.browsers.process.spawn(id, { command: 'python3', args: ['-c', FORWARD, String(port)] })
  const answers = async () => (await runInside(cloud, id, `exec 3<>/dev/tcp/127.0.0.1/${port}`)).code === 0
  await until('the way to the detectors', 10_000, answers, { everyMs: 20 })
}

const FORWARD = `
import asyncio, sys
async def copy(source, target):
    try:
        while data := await source.read(65536):
            target.write(data)
            await target.drain()
    finally:
        target.close()
async def connected(reader, writer):
    there = await asyncio.open_connection('host.cob.internal', int(sys.argv[1]))
    await asyncio.gather(copy(reader, there[1]), copy(there[0], writer), return_exceptions=True)
async def main():
    server = await asyncio.start_server(connected, '127.0.0.1', int(sys.argv[1]))
    await server.serve_forever()
asyncio.run(main())
`
