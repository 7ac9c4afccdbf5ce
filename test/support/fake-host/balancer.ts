// A simple balancer: each TCP connection goes to the next port that accepts it. Clients do not stick to a replica.
import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'

export interface Balancer extends AsyncDisposable {
  url: string
}

export async function startBalancer(ports: readonly number[]): Promise<Balancer> {
  let next = 0
  const open = new Set<Socket>()
  /** Connects to the next port that accepts; undefined when no port does. */
  async function reach(): Promise<Socket | undefined> {
    for (let tried = 0; tried < ports.length; tried++) {
      const socket = connect(ports[next++ % ports.length]!, '127.0.0.1')
      try {
        await once(socket, 'connect')
        return socket
      } catch {
        socket.destroy()
      }
    }
    return undefined
  }
  const server = createServer({ pauseOnConnect: true }, (client) => {
    open.add(client)
    client.on('close', () => open.delete(client)).on('error', () => {})
    void reach().then((replica) => {
      if (!replica || client.destroyed) return void (client.destroy(), replica?.destroy())
      replica.setNoDelay()
      client.setNoDelay()
      replica.on('error', () => client.destroy()).on('close', () => client.destroy())
      client.on('close', () => replica.destroy())
      client.pipe(replica).pipe(client)
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.close()
      for (const client of open) client.destroy()
      await once(server, 'close')
    },
  }
}
