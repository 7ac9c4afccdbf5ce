// A folder for each of several processes that share a directory. What a dead process leaves is taken over by exactly one other process.
import { once } from 'node:events'
import { readdirSync, renameSync, rmdirSync, rmSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { join } from 'node:path'
import { resultWithin } from './wait.ts'

/** The kernel accepts connections for a process that lives, also for one that is stopped. An owner that takes longer counts as alive. */
const ACCEPT_MS = 1_000

/** `<owner>.sock`, or a folder: `<owner>.<maker>`. */
const NAME = /^([a-z][a-z0-9]{23})\.(sock|[a-z][a-z0-9]{23})$/

export interface OwnFolder extends AsyncDisposable {
  /** The process makes it when it needs it. */
  readonly path: string
  /** Takes over the folders of dead processes, and resolves with their new paths. Each goes to one caller, whichever processes ask at the same time. */
  takeOver(): Promise<string[]>
}

/**
 * A folder below `dir` for this process, whose name `owner` (of base/ids.ts) nobody has had before. Disposing removes it if it is empty; otherwise another process takes it over.
 *
 * A folder is named by its present owner and by the process that has made it. While an owner lives, it listens on a socket, and a socket has its name only once it listens. So an owner
 * whose socket refuses a connection, or is missing, is dead. A folder is taken over by renaming it, which only one process can do.
 */
export async function ownFolder(dir: string, owner: string): Promise<OwnFolder> {
  const socketOf = (name: string) => join(dir, `${name}.sock`)
  const path = join(dir, `${owner}.${owner}`)
  const server = createServer((socket) => socket.destroy())
  server.listen(`${socketOf(owner)}.new`).unref()
  await once(server, 'listening')
  renameSync(`${socketOf(owner)}.new`, socketOf(owner))

  /** Takes over what a dead owner has. */
  function* taken(dead: string): Generator<string> {
    for (const [name, , maker] of namesIn(dir)) {
      if (maker === 'sock' || !name.startsWith(`${dead}.`)) continue
      const mine = join(dir, `${owner}.${maker}`)
      try {
        renameSync(join(dir, name), mine)
        yield mine
      } catch (error) {
        // Another process has taken it.
        if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
      }
    }
    rmSync(socketOf(dead), { force: true })
  }

  return {
    path,
    async takeOver() {
      const others = new Set(namesIn(dir).map(([, other]) => other))
      others.delete(owner)
      const folders: string[] = []
      for (const other of others) if (await isDead(socketOf(other))) folders.push(...taken(other))
      return folders
    },
    async [Symbol.asyncDispose]() {
      try {
        removeEmpty(path)
      } finally {
        // From here on others may take over what is left.
        rmSync(socketOf(owner), { force: true })
        await new Promise((resolve) => server.close(resolve))
      }
    },
  }
}

const namesIn = (dir: string): [name: string, owner: string, maker: string][] =>
  readdirSync(dir).flatMap((entry) => {
    const [name, owner, maker] = NAME.exec(entry) ?? []
    return name === undefined ? [] : [[name, owner!, maker!]]
  })

/** Removes a folder unless something is in it, or it is gone. */
export function removeEmpty(folder: string): void {
  try {
    rmdirSync(folder)
  } catch (error) {
    if (!['ENOTEMPTY', 'EEXIST', 'ENOENT'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error
  }
}

/** Whether nobody listens on a socket. One that cannot be asked may belong to an owner who lives. */
async function isDead(socket: string): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const probe = connect(socket)
    .once('connect', () => resolve(false))
    .once('error', ({ code }: NodeJS.ErrnoException) => resolve(code === 'ECONNREFUSED' || code === 'ENOENT'))
  try {
    return (await resultWithin(ACCEPT_MS, promise)) ?? false
  } finally {
    probe.destroy()
  }
}
