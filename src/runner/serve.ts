// The runner's side of its contract: HTTP on the listening socket that is standard input, over TLS when that is a TCP socket.
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Readable } from 'node:stream'
import { takeCredential, type ServerKeys } from '../base/access.ts'
import type { Watchdog } from '../base/watchdog.ts'
import type { Ready, Run } from './contract.ts'
import type { Events } from './events.ts'
import { callOf, MAX_BODY_BYTES } from './limits.ts'

// An import would also load the modules of all its exports, a whole HTTP client among them: 70 ms of a start.
const { createServer } = process.getBuiltinModule('node:http')

const HEARTBEAT_MS = 5_000
/** For a client over TLS; a handshake takes a few milliseconds and one or two round trips. */
const HANDSHAKE_MS = 10_000

/** The calls that a runner supports; a call that its kind does not have is refused. */
export interface Work {
  ready: Promise<Ready>
  /** Receives a build's zip; resolves when it is complete. */
  receive?(body: IncomingMessage): Promise<void>
  /** The packed code, when it is packed, and its bytes. @throws Refused when there is none */
  packed?(): Promise<{ bytes: number; content: Readable }>
  /** Unpacks code; resolves when all of it is there. @throws Refused when it cannot be unpacked */
  unpack?(body: IncomingMessage): Promise<void>
  /** Starts the run. @throws Refused when it cannot */
  run?(run: Run): Promise<void>
}

/** An answer other than 2xx. */
export class Refused extends Error {
  readonly status: number
  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

/** Serves `work` on a listening socket, or at a port of all addresses. With `keys` it speaks TLS, answers nobody without their credential, and limits the connections without it. */
export async function serve(
  work: Work,
  events: Events,
  at: { fd: number } | { port: number },
  watchdog: Watchdog,
  keys: ServerKeys | undefined,
): Promise<void> {
  let known: (socket: object) => void = () => {}
  const handler = (request: IncomingMessage, response: ServerResponse) => {
    if (keys && !takeCredential(request, keys)) return json(response.setHeader('connection', 'close'), 401, { message: 'the credential is missing or wrong' })
    known(request.socket)
    answer(work, events, watchdog, request, response).catch((error: unknown) => {
      if (response.headersSent) return response.destroy()
      const [status, message] = error instanceof Refused ? [error.status, error.message] : [500, String((error as Error).message)]
      // Do not read the rest of a refused body.
      json(response.setHeader('connection', 'close'), status, { message })
    })
  }
  const server = keys
    ? process
        .getBuiltinModule('node:https')
        .createServer({ key: keys.key, cert: keys.certificate, minVersion: 'TLSv1.3', handshakeTimeout: HANDSHAKE_MS }, handler)
    : createServer(handler)
  if (keys) {
    const { limitAnonymous, STRANGERS } = await import('../base/anonymous.ts')
    ;({ known } = limitAnonymous(server, STRANGERS))
  }
  // An upload may take long; its sender has its own timeout.
  server.requestTimeout = 0
  server.listen(at)
}

async function answer(work: Work, events: Events, watchdog: Watchdog, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const url = new URL(request.url ?? '/', 'http://runner')
  switch (callOf(request.method, url.pathname)) {
    case 'watch':
      return watch(response, watchdog)
    case 'ready':
      return json(response, 200, await work.ready)
    case 'events':
      return stream(response, events, natural(url.searchParams.get('after') ?? '0'))
    case 'acknowledge':
      events.acknowledge(natural((JSON.parse(await read(request)) as { seq?: unknown }).seq))
      return nothing(response, 204)
    case 'run':
      if (!work.run) throw new Refused(409, 'this runner builds')
      {
        const run = JSON.parse(await read(request)) as Run
        await work.run(run)
        watchdog.allow(run.timeoutSeconds * 1000)
      }
      return nothing(response, 202)
    case 'sendArchive':
      if (!work.receive) throw new Refused(400, 'this runner accepts no archive')
      await work.receive(request)
      return nothing(response, 204)
    case 'packedCode':
      if (!work.packed) throw new Refused(409, 'this runner packs no code')
      return send(response, await work.packed())
    case 'unpackCode':
      if (!work.unpack) throw new Refused(409, 'this runner unpacks no code')
      await work.unpack(request)
      return nothing(response, 204)
    default:
      throw new Refused(404, 'there is no such call')
  }
}

function watch(response: ServerResponse, watchdog: Watchdog): void {
  const leave = watchdog.watch()
  response.writeHead(200, { 'content-type': 'application/x-ndjson' }).write('{"event":"ready"}\n')
  const timer = setInterval(() => response.write('{"event":"heartbeat"}\n'), HEARTBEAT_MS)
  response.on('close', () => {
    clearInterval(timer)
    leave()
  })
}

async function stream(response: ServerResponse, events: Events, after: number): Promise<void> {
  const gone = new AbortController()
  response.on('close', () => gone.abort())
  response.writeHead(200, { 'content-type': 'application/x-ndjson' }).flushHeaders()
  for await (const lines of events.follow(after, gone.signal)) {
    if (response.write(lines)) continue
    const { promise, resolve } = Promise.withResolvers<void>()
    response.once('drain', resolve).once('close', resolve)
    await promise
    response.off('drain', resolve).off('close', resolve)
  }
  response.end()
}

/** Sends a file. A reader that leaves, or a file that cannot be read on, ends the connection early. */
function send(response: ServerResponse, { bytes, content }: { bytes: number; content: Readable }): void {
  response.on('close', () => content.destroy())
  content.on('error', () => response.destroy())
  content.pipe(response.writeHead(200, { 'content-type': 'application/zstd', 'content-length': bytes }))
}

async function read(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    length += chunk.length
    if (length > MAX_BODY_BYTES) throw new Refused(400, `the body has more than ${MAX_BODY_BYTES} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString()
}

function natural(value: unknown): number {
  const number = Number(value)
  if (!Number.isSafeInteger(number) || number < 0) throw new Refused(400, 'the number of an event must be an integer of 0 or more')
  return number
}

function json(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}

function nothing(response: ServerResponse, status: number): void {
  response.writeHead(status).end()
}
