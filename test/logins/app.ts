// What a login application of the tests is, the recording server in front of it, and passwords that no run shares with another.
import { randomBytes, randomInt } from 'node:crypto'
import { createServer, request, type IncomingMessage } from 'node:http'
import { connect, type Socket } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { join } from 'node:path'
import { PACKAGE_DIR } from '../../src/base/paths.ts'
import { serveSockets } from '../support/upstreams.ts'

/** What script/setup-logins has installed. */
export const LOGINS_DIR = join(PACKAGE_DIR, '.cob/logins')

export interface Received {
  method: string
  host: string
  path: string
  body: string
  /** Name and password that its header has, by HTTP's own way. */
  authorization: string
}

export interface LoginApp extends AsyncDisposable {
  name: string
  /** Port on 127.0.0.1 where it answers for all its host names. */
  port: number
  /** Host names ending in .test that it must be reached by; the first is the application's own. */
  hosts: string[]
  /** Undefined: the engine must find it from the home page. */
  loginUrl: string | undefined
  homeUrl: string
  /** What a person types, by field; `totpSecret` is the secret of an authenticator in base32. */
  user: Record<string, string>
  /** Ends all sessions on the server's side, so that a health check must find the user logged out. */
  endSessions(): Promise<void>
  /** A page that shows `text` only to a logged-in user. */
  proof: { url: string; text: RegExp }
  /** What that page says after a password was wrong before the login that succeeded, if it says anything. */
  notice?: RegExp
  /** What its servers have received, in order. */
  requests(): Received[]
}

/** How often a value was sent: in the address, the body or the authorization of a request, also as forms and addresses encode it. */
export const sendings = (app: Pick<LoginApp, 'requests'>, value: string): number =>
  app.requests().filter(({ path, body, authorization }) => [path, body, authorization].some((text) => text.includes(value) || decoded(text).includes(value)))
    .length

/** A text that is not encoded so stays as it is, but for its encoded parts. */
const decoded = (text: string): string =>
  text.replaceAll('+', ' ').replaceAll(/(?:%[\da-f]{2})+/gi, (part) => Buffer.from(part.replaceAll('%', ''), 'hex').toString())

/** The part of {@link LoginApp} that a front provides. */
export type Front = Pick<LoginApp, 'port' | 'hosts' | 'requests'> & AsyncDisposable

/** A word for a password that no other run has. It satisfies the password rules of all the applications. */
export const randomPassword = (): string => `Pw-${randomBytes(9).toString('hex')}-${randomInt(10, 100)}`

/** A secret for an authenticator app, in base32. */
export function randomTotpSecret(): string {
  const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'
  return Array.from({ length: 32 }, () => letters[randomInt(letters.length)]).join('')
}

/**
 * Takes the requests for the host names, records them and passes each on to the port of its host. Answers 404 for other hosts.
 * @param ports - by host name, where on 127.0.0.1 the application answers
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

const basicOf = (header = ''): string => (/^basic /i.test(header) ? Buffer.from(header.slice(6), 'base64').toString() : '')

/** Host name of a Host header, without its port. */
export const hostOf = (header: string | undefined): string => (header ?? '').replace(/:\d+$/, '').toLowerCase()

/** Carries bytes both ways until one side ends. */
export function joinSockets(a: Socket, b: Socket): void {
  a.on('error', () => b.destroy()).on('close', () => b.destroy())
  b.on('error', () => a.destroy()).on('close', () => a.destroy())
  a.pipe(b).pipe(a)
}
