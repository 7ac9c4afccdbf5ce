// Finds sandboxes of this machine that belong to no service, and ends them on request.
import { existsSync, readdirSync, readlinkSync, statSync } from 'node:fs'
import { descendantsOf, killAll, nameProcess, type ProcessName } from '../../base/processes.ts'
import { heldSockets, presenceIn } from '../../base/presence.ts'
import { until } from '../../base/wait.ts'
import { thawAnywhere } from './freezer.ts'
import { removeGroupsOf } from './limits.ts'

/** Killing all of a sandbox takes 30-60 ms. */
const END_MS = 20_000

/** The socket of a sandbox, under the name that it was bound to (instance.ts). */
const SANDBOX = /^(.*)\/(instances|runs)\/([a-z][a-z0-9]{23})\/agent\.sock(\.new)?$/

export interface Orphan {
  id: string
  dataDir: string
  /** Why it belongs to no service. */
  why: string
  /** User ids of its processes, as far as visible. */
  users: number[]
  /** Ends its processes and removes its limits. The next start removes its directory. @throws when its processes may not be ended */
  end(): Promise<void>
}

/**
 * Sandboxes of data directories that are deleted, or that no service has used for longer than the grace. A sandbox whose service runs, or may run, is never
 * listed. Sandboxes of other containers have another network namespace and are not seen.
 */
export function findOrphans(graceSeconds: number, now = Date.now()): Orphan[] {
  const held = heldSockets()
  const found = new Map<string, Orphan>()
  for (const { path, inode } of held) {
    const [, dataDir, , id] = SANDBOX.exec(path) ?? []
    if (dataDir === undefined || id === undefined || found.has(id)) continue
    const why = whyOrphan(dataDir, presenceIn(dataDir, held), graceSeconds, now)
    if (why !== undefined) found.set(id, { id, dataDir, why, users: usersOf(holders(inode)), end: () => end(id, inode) })
  }
  return [...found.values()]
}

function whyOrphan(dataDir: string, presence: ReturnType<typeof presenceIn>, graceSeconds: number, now: number): string | undefined {
  if (presence === 'running') return undefined
  if (!existsSync(dataDir)) return 'its data directory is gone'
  if (presence === 'unknown') return undefined
  const seconds = Math.round((now - presence.seen) / 1000)
  return seconds > graceSeconds ? `no service has worked with its data directory for ${seconds} s` : undefined
}

/** Processes that have a sandbox's listening socket as their standard input, and all their descendants. */
function holders(inode: string): ProcessName[] {
  const holds = (pid: string): boolean => {
    try {
      return readlinkSync(`/proc/${pid}/fd/0`) === `socket:[${inode}]`
    } catch (error) {
      // The process has ended, or belongs to another user.
      if (['ENOENT', 'ESRCH', 'EACCES', 'EPERM'].includes((error as NodeJS.ErrnoException).code ?? '')) return false
      throw error
    }
  }
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name) && holds(name))
  const all = new Set(pids.flatMap((pid) => [Number(pid), ...descendantsOf(Number(pid))]))
  return [...all].map(nameProcess).filter((name) => name !== undefined)
}

const usersOf = (processes: readonly ProcessName[]): number[] => [
  ...new Set(processes.flatMap(({ pid }) => statSync(`/proc/${pid}`, { throwIfNoEntry: false })?.uid ?? [])),
]

async function end(id: string, inode: string): Promise<void> {
  await until(
    'a sandbox to end',
    END_MS,
    async () => {
      thawAnywhere(id)
      await killAll(holders(inode))
      return !heldSockets().some((socket) => socket.inode === inode)
    },
    { everyMs: 20 },
  )
  await removeGroupsOf(id)
}
