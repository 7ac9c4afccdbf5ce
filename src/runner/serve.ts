// The runner's side of its contract: a small router over the table of its calls, on the listening socket that is standard input, over TLS when that is a TCP
// socket. `mount` is not used here: loading it takes far longer than the start of a run may take.
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import { takeCredential, type ServerKeys } from '../base/access.ts'
import type { Watchdog } from '../base/watchdog.ts'
import { sleep } from '../base/wait.ts'
import type { Ready, Run } from './contract.ts'
import type { Events } from './events.ts'
import { CALLS, MAX_BODY_BYTES, type CallName } from './limits.ts'

// An import would also load the modules of all its exports, including a whole HTTP client: 70 ms of a start.
const { createServer } = process.getBuiltinModule('node:http')

const HEARTBEAT_MS = 5_000
/** For a client over TLS; a handshake takes a few milliseconds and one or two round trips. */
const HANDSHAKE_MS = 10_000

/** The actions of a runner. A call is refused when the runner's kind does not have it. */
export interface Work {
  ready: Promise<Ready>
  /** Receives a build's zip; resolves when it is complete. */
  receive?(body: IncomingMessage): Promise<void>
  /** The packed code and its size, when packing is done. @throws Refused when there is none */
  packed?(): Promise<{ bytes: number; content: Readable }>
  /** Unpacks code; resolves when it is complete. @throws Refused when it cannot be unpacked */
  unpack?(body: IncomingMessage): Promise<void>
  /** Starts the run. @throws Refused when it cannot */
  run?(run: Run): Promise<void>
}

const STATUS = { bad_request: 400, unauthorized: 401, not_found: 404, conflict: 409, internal_error: 500 } as const

/** An error for the caller, in the common form. */
export class Refused extends Error {
  readonly code: keyof typeof STATUS
  constructor(code: keyof typeof STATUS, message: string) {
    super(message)
    this.code = code
  }
}

/** The answer of a call: bytes, lines, a value as JSON, or nothing. */
type Reply = { bytes: number; content: Readable } | Readable | Ready | undefined
type Handler = (request: IncomingMessage, query: URLSearchParams, signal: AbortSignal) => Reply | Promise<Reply | void> | void

/**
 * Serves `work` on a listening socket, at a port of all addresses, or at a path. With `keys` it uses TLS, answers only requests with the keys' credential, and
 * limits connections without it.
 */
export async function serve(
  work: Work,
  events: Events,
  at: { fd: number } | { port: number } | { path: string },
  watchdog: Watchdog,
  keys: ServerKeys | undefined,
): Promise<Server> {
  const handlers = handlersOf(work, events, watchdog)
  let known: (socket: object) => void = () => {}
  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    if (keys && !takeCredential(request, keys)) throw new Refused('unauthorized', 'the credential is missing or wrong')
    known(request.socket)
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://runner')
    const name = (Object.keys(CALLS) as CallName[]).find((one) => CALLS[one].method === request.method && CALLS[one].path === pathname)
    if (!name) throw new Refused('not_found', 'there is no such call')
    const gone = new AbortController()
    response.on('close', () => gone.abort())
    const call: { status?: number } & object = CALLS[name]
    send(response, call.status ?? 204, (await handlers[name](request, searchParams, gone.signal)) ?? undefined)
  }
  const handler = (request: IncomingMessage, response: ServerResponse) => {
    answer(request, response).catch((error: unknown) => {
      if (response.headersSent) return response.destroy()
      const { code, message } = error instanceof Refused ? error : new Refused('internal_error', String((error as Error).message))
      // Do not read the rest of a refused body.
      json(response.setHeader('connection', 'close'), STATUS[code], { code, message })
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
  return server.listen(at)
}

/** One handler for each call of the table. */
function handlersOf({ ready, receive, packed, unpack, run }: Work, events: Events, watchdog: Watchdog): Record<CallName, Handler> {
  const none = (): never => {
    throw new Refused('conflict', 'a runner of this kind does not have this call')
  }
  return {
    watch: (_request, _query, signal) => lines(beats(watchdog, signal)),
    ready: () => ready,
    events: (_, query, signal) => lines(events.follow(natural(query.get('after') ?? '0'), signal)),
    acknowledge: async (request) => events.acknowledge(natural((await read<{ seq?: unknown }>(request)).seq)),
    run: run
      ? async (request) => {
          const given = await read<Run>(request)
          await run(given)
          watchdog.allow(given.timeoutSeconds * 1000)
        }
      : none,
    sendArchive: receive ?? none,
    packedCode: packed ?? none,
    unpackCode: unpack ?? none,
  }
}

/** Tells a watcher that the runner is alive. */
async function* beats(watchdog: Watchdog, signal: AbortSignal): AsyncGenerator<string> {
  using scope = new DisposableStack()
  scope.defer(watchdog.watch())
  yield '{"event":"ready"}\n'
  for (;;) {
    await sleep(HEARTBEAT_MS, signal).catch(() => {})
    if (signal.aborted) return
    yield '{"event":"heartbeat"}\n'
  }
}

/** An answer of lines. */
const lines = (from: AsyncIterable<string>): Readable => Readable.from(from, { objectMode: false })

/** A reader that leaves, or content that cannot be read any more, ends both. */
function send(response: ServerResponse, status: number, reply: Reply): void {
  if (reply === undefined) return void response.writeHead(status).end()
  if (!('content' in reply) && !(reply instanceof Readable)) return json(response, 200, reply)
  const [content, headers] =
    'content' in reply
      ? [reply.content, { 'content-type': 'application/zstd', 'content-length': reply.bytes }]
      : [reply, { 'content-type': 'application/x-ndjson' }]
  response.on('close', () => content.destroy())
  content.on('error', () => response.destroy())
  response.writeHead(200, headers).flushHeaders()
  content.pipe(response)
}

async function read<T>(request: IncomingMessage): Promise<T> {
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    length += chunk.length
    if (length > MAX_BODY_BYTES) throw new Refused('bad_request', `the body has more than ${MAX_BODY_BYTES} bytes`)
    chunks.push(chunk)
  }
  return JSON.parse(Buffer.concat(chunks).toString()) as T
}

function natural(value: unknown): number {
  const number = Number(value)
  if (!Number.isSafeInteger(number) || number < 0) throw new Refused('bad_request', 'the number of an event must be an integer of 0 or more')
  return number
}

function json(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}
