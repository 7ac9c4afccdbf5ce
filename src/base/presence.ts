// Shows other processes on this machine that a service works with a data directory: by a Unix socket that the service holds, and by a file's
// time.
import { once } from 'node:events'
import { existsSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'

/** Nothing connects to it. The kernel lists it in /proc/net/unix while its process lives, even after the directory was deleted. */
const SOCKET = 'service.sock'
/** Attempts to bind it. Replicas that start at the same moment remove it for each other, and each of them creates it within a millisecond. */
const MOST_TRIES = 100

/** Shows that a service works with `dataDir`, until it is disposed or the process ends. `seen` updates the file's time. */
export async function announce(dataDir: string): Promise<AsyncDisposable & { seen(): void }> {
  const file = join(dataDir, SOCKET)
  const server = createServer((socket) => socket.destroy()).unref()
  for (let tries = 1; !server.listening; tries++) {
    rmSync(file, { force: true })
    server.listen(file)
    await once(server, 'listening').catch((error: NodeJS.ErrnoException) => {
      // Another replica has made its own socket since this one was removed here.
      if (error.code !== 'EADDRINUSE' || tries === MOST_TRIES) throw error
    })
  }
  return {
    seen() {
      // Another service with this directory has replaced the file by its own socket; ours is still listed under this name.
      if (!existsSync(file)) writeFileSync(file, '')
      utimesSync(file, new Date(), new Date())
    },
    async [Symbol.asyncDispose]() {
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

/** A Unix socket that some process holds: the path that it was bound to, and its inode. */
export interface HeldSocket {
  path: string
  inode: string
}

/** Every Unix socket with a path in our network namespace. */
export function heldSockets(): HeldSocket[] {
  return readFileSync('/proc/net/unix', 'utf8')
    .split('\n')
    .flatMap((line) => {
      const [, inode, path] = /^\S+: (?:\S+ ){5}\s*(\d+) (\/.*)$/.exec(line) ?? []
      return inode === undefined || path === undefined ? [] : [{ inode, path }]
    })
}

/**
 * Whether a service works with `dataDir`: `running`, the time when one was last `seen` (ms since 1970), or `unknown` when the directory has no
 * trace of a service.
 */
export function presenceIn(dataDir: string, held: readonly HeldSocket[]): 'running' | 'unknown' | { seen: number } {
  const file = join(dataDir, SOCKET)
  if (held.some(({ path }) => path === file)) return 'running'
  const stat = statSync(file, { throwIfNoEntry: false })
  return stat ? { seen: stat.mtimeMs } : 'unknown'
}
