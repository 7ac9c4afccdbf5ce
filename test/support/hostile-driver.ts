// A driver whose agents a test can take over, as a program inside a session could: the socket stays the same, but another program answers on it.
import { once } from 'node:events'
import { createServer, connect, type Socket } from 'node:net'
import { join } from 'node:path'
import type { DataPaths } from '../../src/base/paths.ts'
import type { Driver, Instance } from '../../src/instances/driver.ts'
import { fakeDriver } from '../../src/instances/fake/fake.ts'

/** Handles a connection on which the head of a request has arrived. `head` is that head as text. */
export type Attack = (socket: Socket, head: string) => void

export interface Hostile {
  drive: (paths: DataPaths) => Driver
  /** From now on, `attack` gets the requests to the session's agent. */
  takeOver(id: string, attack: Attack): void
  /** Ends the attack. */
  release(id: string): void
  /** The number of connections that an attacker holds open. */
  held(): number
}

/** Wraps the fake driver: each agent is behind a relay that attackers can take over. */
export function hostileDriver(): Hostile {
  const attacks = new Map<string, Attack>()
  const attacked = new Set<Socket>()

  const meet = (id: string, real: string, socket: Socket): void => {
    socket.on('error', () => socket.destroy())
    let said = Buffer.alloc(0)
    const hear = (chunk: Buffer): void => {
      said = Buffer.concat([said, chunk])
      if (!said.includes('\r\n\r\n')) return
      socket.off('data', hear)
      const attack = attacks.get(id)
      if (attack) {
        attacked.add(socket.once('close', () => attacked.delete(socket)).resume())
        return attack(socket, said.toString('latin1'))
      }
      const upstream = connect(real)
      upstream.on('error', () => socket.destroy()).on('close', () => socket.destroy())
      socket.on('close', () => upstream.destroy())
      upstream.write(said)
      upstream.pipe(socket)
      // The attacker also gets later requests of a kept connection, because it owns the descriptor.
      const hearMore = (more: Buffer): void => {
        const later = attacks.get(id)
        const next = more.toString('latin1')
        if (later && /^[A-Z]+ \//.test(next)) {
          // This connection to the real agent is no longer needed, and its close must not close the attacker's connection.
          upstream.unpipe(socket).removeAllListeners('close').destroy()
          // Remove this listener: data that the attacker puts back on the socket would arrive here again.
          socket.off('data', hearMore)
          attacked.add(socket.once('close', () => attacked.delete(socket)))
          return later(socket, next)
        }
        upstream.write(more)
      }
      socket.on('data', hearMore)
    }
    socket.on('data', hear)
  }

  async function wrap(instance: Instance, dir: string): Promise<Instance> {
    const real = (instance.agent as { socketPath: string }).socketPath
    const sockets = new Set<Socket>()
    const relay = createServer((socket) => {
      sockets.add(socket.once('close', () => sockets.delete(socket)))
      meet(instance.id, real, socket)
    })
    const socketPath = join(dir, 'relay.sock')
    relay.listen(socketPath)
    await once(relay, 'listening')
    return {
      id: instance.id,
      agent: { socketPath },
      exited: instance.exited,
      unwatch: () => instance.unwatch(),
      kill: () => instance.kill(),
      async [Symbol.asyncDispose]() {
        attacks.delete(instance.id)
        for (const socket of sockets) socket.destroy()
        relay.close()
        await instance[Symbol.asyncDispose]()
      },
    }
  }

  return {
    drive(paths) {
      const inner = fakeDriver(paths)
      return { ...inner, start: async (spec, signal) => wrap(await inner.start(spec, signal), paths.instance(spec.id)) }
    },
    takeOver: (id, attack) => void attacks.set(id, attack),
    release: (id) => void attacks.delete(id),
    held: () => attacked.size,
  }
}
