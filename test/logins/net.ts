// An HTTP proxy that connects sessions to the login applications. It resolves only their names under .test.
import { createServer, request, type IncomingMessage } from 'node:http'
import { connect, type Socket } from 'node:net'
import { serveSockets } from '../support/upstreams.ts'
import { joinSockets, type LoginApp } from './app.ts'

export interface LoginNet extends AsyncDisposable {
  /** The proxy's port on 127.0.0.1. A service with COB_ALLOW_HOST_LOOPBACK=1 accepts the proxy as a custom proxy with `host: 'host.cob.internal'`. */
  port: number
  /** Makes an application reachable by its names, on port 80 for plain HTTP. */
  add(app: Pick<LoginApp, 'hosts' | 'port'>): void
}

/** Starts the proxy for these applications. It answers 502 for any other name. */
export async function startLoginNet(apps: readonly Pick<LoginApp, 'hosts' | 'port'>[]): Promise<LoginNet> {
  const ports = new Map<string, number>()
  const add: LoginNet['add'] = ({ hosts, port }) => hosts.forEach((host) => ports.set(host, port))
  apps.forEach(add)
  const portOf = (host: string): number | undefined => ports.get(host.toLowerCase())
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
  return { port: served.port, add, [Symbol.asyncDispose]: () => served[Symbol.asyncDispose]() }
}
