// The interface of a login application in tests, the recording server in front of it, and random passwords.
import { randomBytes, randomInt } from 'node:crypto'
import { createServer, request, type IncomingMessage } from 'node:http'
import { connect, type Socket } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { join } from 'node:path'
import { PACKAGE_DIR } from '../../src/base/paths.ts'
import { serveSockets } from '../support/upstreams.ts'

/** The folder where script/setup-logins installs the applications. */
export const LOGINS_DIR = join(PACKAGE_DIR, '.cob/logins')

export interface Received {
  method: string
  host: string
  path: string
  body: string
  /** The name and the password of HTTP Basic authentication. */
  authorization: string
}

export interface LoginApp extends AsyncDisposable {
  name: string
  /** The port on 127.0.0.1 that serves all its host names. */
  port: number
  /** Host names ending in .test; the first is the application's own. */
  hosts: string[]
  /** When undefined, the engine must find the login page from the home page. */
  loginUrl: string | undefined
  homeUrl: string
  /** The values that a person types, by field; `totpSecret` is an authenticator's secret in base32. */
  user: Record<string, string>
  /** Ends all sessions on the server, so that a health check finds the user logged out. */
  endSessions(): Promise<void>
  /** A page that shows `text` only to a logged-in user. */
  proof: { url: string; text: RegExp }
  /** A notice on that page when the login succeeded only after a wrong password, if the application has one. */
  notice?: RegExp
  /** The requests that its servers have received, in order. */
  requests(): Received[]
}

/** How many requests contained the value, in the path, the body or the authorization. Form and URL encodings count too. */
export const sendings = (app: Pick<LoginApp, 'requests'>, value: string): number =>
  app.requests().filter(({ path, body, authorization }) => [path, body, authorization].some((text) => text.includes(value) || decoded(text).includes(value)))
    .length

/** Decodes the encoded parts of a text; other text is unchanged. */
const decoded = (text: string): string =>
  text.replaceAll('+', ' ').replaceAll(/(?:%[\da-f]{2})+/gi, (part) => Buffer.from(part.replaceAll('%', ''), 'hex').toString())

/** The part of {@link LoginApp} that the recording server provides. */
export type Front = Pick<LoginApp, 'port' | 'hosts' | 'requests'> & AsyncDisposable

/** A password that no other run has. It satisfies the rules of all applications. */
export const randomPassword = (): string => `Pw-${randomBytes(9).toString('hex')}-${randomInt(10, 100)}`

/** A secret for an authenticator app, in base32. */
export function randomTotpSecret(): string {
  const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'
  return Array.from({ length: 32 }, () => letters[randomInt(letters.length)]).join('')
}

/**
 * Accepts requests for the host names, records each, and passes it to the application's port. Answers 404 for other hosts. @param ports the application's port on
 * 127.0.0.1, by host name
 */
export async function startFront(ports: Record<string, number>): Promise<Front> {
  const received: Received[] = []
  const portOf = ({ headers }: IncomingMessage) => ports[hostOf(headers.host)]
  const note = ({ method, headers, url }: IncomingMessage, body: string) =>
    received.push({ method: method!, host: hostOf(headers.host), path: url!, body, authorization: basicOf(headers.authorization) })
  const server = createServer((incoming, reply) => {
    void (async () => {
      const body = await buffer(incoming)
      note(incoming, body.toString())
      const port = portOf(incoming)
      if (port === undefined) return void reply.writeHead(404).end(`nothing here is called ${incoming.headers.host}`)
      const { connection: _, 'transfer-encoding': _coding, ...headers } = incoming.headers
      const onward = request({
        host: '127.0.0.1',
        port,
        path: incoming.url!,
        method: incoming.method!,
        agent: false,
        headers: { ...headers, 'content-length': body.length },
      })
      onward.on('error', () => (reply.headersSent ? reply.destroy() : reply.writeHead(502).end('the application does not answer')))
      onward.on('response', (answer) => {
        reply.writeHead(answer.statusCode!, answer.headers)
        answer.on('error', () => reply.destroy()).pipe(reply)
      })
      reply.on('close', () => onward.destroy())
      onward.end(body)
    })().catch(() => reply.destroy())
  })
  server.on('upgrade', (incoming: IncomingMessage, socket: Socket, head: Buffer) => {
    note(incoming, '')
    const port = portOf(incoming)
    if (port === undefined) return void socket.destroy()
    const lines = [`${incoming.method} ${incoming.url} HTTP/1.1`]
    for (let i = 0; i < incoming.rawHeaders.length; i += 2) lines.push(`${incoming.rawHeaders[i]}: ${incoming.rawHeaders[i + 1]}`)
    const onward = connect(port, '127.0.0.1')
    onward.write(`${lines.join('\r\n')}\r\n\r\n`)
    onward.write(head)
    joinSockets(socket, onward)
  })
  const served = await serveSockets(server)
  return { port: served.port, hosts: Object.keys(ports), requests: () => [...received], [Symbol.asyncDispose]: () => served[Symbol.asyncDispose]() }
}

/** An application whose programs belong to `scope`, with a recording server in front. Disposing it ends them all. */
export async function withFront<About extends Omit<LoginApp, keyof Front>>(
  ports: Record<string, number>,
  scope: AsyncDisposableStack,
  about: About,
): Promise<About & Front> {
  const front = scope.use(await startFront(ports))
  const owner = scope.move()
  return { ...front, ...about, [Symbol.asyncDispose]: () => owner.disposeAsync() }
}

const basicOf = (header = ''): string => (/^basic /i.test(header) ? Buffer.from(header.slice(6), 'base64').toString() : '')

/** The host name of a Host header, without the port. */
export const hostOf = (header: string | undefined): string => (header ?? '').replace(/:\d+$/, '').toLowerCase()

/** Copies bytes in both directions until one side ends. */
export function joinSockets(a: Socket, b: Socket): void {
  a.on('error', () => b.destroy()).on('close', () => b.destroy())
  b.on('error', () => a.destroy()).on('close', () => a.destroy())
  a.pipe(b).pipe(a)
}
