// The way from a session to the login applications: an HTTP proxy that knows their names under .test, and reaches nothing else.
import { createServer, request, type IncomingMessage } from 'node:http'
import { connect, type Socket } from 'node:net'
import { serveSockets } from '../support/upstreams.ts'
import { joinSockets, type LoginApp } from './app.ts'

export interface LoginNet extends AsyncDisposable {
  /** Of the proxy on 127.0.0.1. A service with COB_ALLOW_HOST_LOOPBACK=1 accepts it as a custom proxy with `host: 'host.cob.internal'`. */
  port: number
  /** Makes an application reachable by its names; its plain port is 80. */
  add(app: Pick<LoginApp, 'hosts' | 'port'>): void
  /** Hosts that were asked for and that no application has. */
  unknown(): string[]
}

/** Starts the proxy for these applications. Names of no application get 502. */
export async function startLoginNet(apps: readonly Pick<LoginApp, 'hosts' | 'port'>[]): Promise<LoginNet> {
  const ports = new Map<string, number>()
  const unknown: string[] = []
  const add: LoginNet['add'] = ({ hosts, port }) => hosts.forEach((host) => ports.set(host, port))
  apps.forEach(add)
  function portOf(host: string): number | undefined {
    const port = ports.get(host.toLowerCase())
    if (port === undefined) unknown.push(host)
    return port
  }
  const server = createServer((incoming, reply) => {
    const url = URL.parse(incoming.url!)
    const port = url?.protocol === 'http:' && (url.port === '' || url.port === '80') ? portOf(url.hostname) : undefined
    if (!url || port === undefined) return void reply.writeHead(502).end('no login application has this name')
    const { 'proxy-authorization': _, 'proxy-connection': _own, connection: _hop, ...headers } = incoming.headers
    const onward = request({ host: '127.0.0.1', port, path: url.pathname + url.search, method: incoming.method!, agent: false, headers })
    onward.on('error', () => (reply.headersSent ? reply.destroy() : reply.writeHead(502).end()))
    onward.on('response', (answer) => {
      reply.writeHead(answer.statusCode!, answer.headers)
      answer.on('error', () => reply.destroy()).pipe(reply)
    })
    reply.on('close', () => onward.destroy())
    incoming.pipe(onward)
  })
  server.on('connect', (incoming: IncomingMessage, socket: Socket) => {
    const [host = '', at] = incoming.url!.split(':')
    const port = at === '80' ? portOf(host) : undefined
    if (port === undefined) return void socket.end('HTTP/1.1 502 Bad Gateway\r\n\r\n')
    const onward = connect(port, '127.0.0.1', () => socket.write('HTTP/1.1 200 OK\r\n\r\n'))
    joinSockets(socket, onward)
  })
  const served = await serveSockets(server)
  return { port: served.port, add, unknown: () => [...unknown], [Symbol.asyncDispose]: () => served[Symbol.asyncDispose]() }
}
