// The fake host: a separate process that holds the fake instances of many replicas, as a Docker host holds containers, so that they survive a killed replica. One fake
// agent with the real routes answers for all of them. Each instance has its own listener and, over TLS, its own certificate, so that a replica cannot reach another
// instance by mistake.
import { EventEmitter, once } from 'node:events'
import { mkdirSync } from 'node:fs'
import { createServer as createHttp, type Server } from 'node:http'
import { createServer, type AddressInfo, type Server as NetServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { createServer as createTls } from 'node:tls'
import type { Endpoint } from '../../../src/http/endpoint.ts'
import { fakeAgent } from '../../../src/instances/fake/fake.ts'
import { fakeHostSocket, type Kept, type Wanted } from './contract.ts'

const VIEWPORT = { width: 1920, height: 1080, refresh_rate: 25 }

interface Running extends Kept {
  end(): Promise<void>
}

// One fake browser has the listeners of all sessions, so remove the limit.
EventEmitter.defaultMaxListeners = 0

const root = process.argv[2]!
const sockets = join(root, 'fake-host')
mkdirSync(sockets, { recursive: true })
await using scope = new AsyncDisposableStack()
const agent = await fakeAgent({ id: 'fake-host', viewport: VIEWPORT }, sockets, undefined, scope)
const running = new Map<string, Running>()

async function start({ id, replica, keys }: Wanted): Promise<Kept> {
  const open = new Set<Socket>()
  const serve = (socket: Socket) => {
    open.add(socket)
    socket.on('close', () => open.delete(socket)).on('error', () => {})
    agent.emit('connection', socket)
  }
  const server: NetServer = keys ? createTls({ key: keys.key, cert: keys.certificate, minVersion: 'TLSv1.3' }, serve) : createServer(serve)
  const socketPath = join(sockets, id)
  if (keys) server.listen(0, '127.0.0.1')
  else server.listen(socketPath)
  await once(server, 'listening')
  const at: Endpoint = keys
    ? { host: '127.0.0.1', port: (server.address() as AddressInfo).port, certificate: keys.certificate, credential: keys.credential }
    : { socketPath }
  const end = async () => {
    running.delete(id)
    const closed = once(server, 'close')
    server.close()
    for (const socket of open) socket.destroy()
    await closed
  }
  running.set(id, { id, replica, agent: at, end })
  return { id, replica, agent: at }
}

const shown = ({ id, replica, agent: at }: Running): Kept => ({ id, replica, agent: at })

const api: Server = createHttp((request, response) => {
  const id = request.url!.slice(1)
  const answer = (status: number, body: unknown) => response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  const work = async () => {
    if (request.method === 'POST') {
      const text = (await request.setEncoding('utf8').toArray()).join('')
      return answer(200, await start(JSON.parse(text) as Wanted))
    }
    if (id === '') return answer(200, [...running.values()].map(shown))
    const one = running.get(id)
    if (!one) return answer(404, {})
    if (request.method === 'DELETE') await one.end()
    return answer(200, shown(one))
  }
  work().catch((error: unknown) => answer(500, { error: String(error) }))
})
api.listen(fakeHostSocket(root))
await once(api, 'listening')
process.stdout.write('ready\n')
await once(process, 'SIGTERM')
process.exit(0)
