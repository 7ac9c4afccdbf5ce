// Starts programs as the unprivileged user, and ends them with all their children.
import { spawn, type ChildProcess, type StdioOptions } from 'node:child_process'
import { chownSync, mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { killAll, nameProcess } from '../src/base/processes.ts'
import { serviceUser } from '../src/base/user.ts'
import { tree } from './usage.ts'

export interface Running extends AsyncDisposable {
  /** All its processes, also those that have left its process tree, as Chromium's crash handlers do. */
  pids(): number[]
}

/** A folder that belongs to the unprivileged user. Programs that use it are found by its path. */
export function ownFolder(): { path: string } & Disposable {
  const path = mkdtempSync(join(tmpdir(), 'cob-bench-'))
  const user = serviceUser()
  if (user) chownSync(path, user.uid, user.gid)
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 }) }
}

/** Starts a program whose HOME is `home`. */
export function launch(file: string, args: string[], home: string, env: NodeJS.ProcessEnv, stdio: StdioOptions): { child: ChildProcess } & Running {
  const user = serviceUser()
  const child = spawn(file, args, {
    cwd: '/',
    detached: true,
    stdio,
    env: { PATH: process.env.PATH, LANG: 'C.UTF-8', HOME: home, ...env },
    ...(user && { uid: user.uid, gid: user.gid }),
  })
  child.on('error', () => {})
  const { pid } = child
  if (pid === undefined) throw new Error(`${file} could not be started`)
  const pids = () => [...new Set([...tree(pid), ...living(home)])]
  return {
    child,
    pids,
    async [Symbol.asyncDispose]() {
      // Repeat, because a process may fork while others are being killed.
      for (let names = named(pids()); names.length > 0; names = named(pids())) await killAll(names)
    },
  }
}

const named = (pids: number[]) => pids.map(nameProcess).filter((name) => name !== undefined)

function living(home: string): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && environment(name).includes(`HOME=${home}`))
    .map(Number)
}

// Empty when it cannot be read: the process has ended, or belongs to another user, so this program did not start it.
function environment(pid: string): string[] {
  try {
    return readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0')
  } catch {
    return []
  }
}
