// A port that nothing listens on, for a program that must be told its port before it starts.
import { once } from 'node:events'
import { createServer } from 'node:net'

/** Below 32768, where the kernel begins to choose: otherwise another server or connection may get the port before the program takes it. */
const FIRST = 18_000
const LAST = 32_000
const TRIES = 50

/** A port at 127.0.0.1 that nothing listens on now. @throws when none of many is free. */
export async function freePort(): Promise<number> {
  for (let tries = 1; ; tries++) {
    const port = FIRST + Math.floor(Math.random() * (LAST - FIRST))
    const server = createServer()
    try {
      await once(server.listen(port, '127.0.0.1'), 'listening')
    } catch (error) {
      if (tries === TRIES) throw error
      continue
    }
    server.close()
    await once(server, 'close')
    return port
  }
}
