// Finds a port that nothing listens on, for a program that needs its port before it starts.
import { once } from 'node:events'
import { createServer } from 'node:net'

/** The kernel assigns ports from 32768 on. A lower port is not given to another server or connection before the program uses it. */
const FIRST = 18_000
const LAST = 32_000
const TRIES = 50

/** A port on 127.0.0.1 on which nothing listens now. @throws when none of many is free. */
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
