// Runs the programs of login applications: starts them on a free port in a scratch folder, restarts them with changed files, and ends them with all their children.
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { until } from '../../src/base/wait.ts'
import { freePort } from '../support/free-port.ts'
import { LOGINS_DIR } from './app.ts'

/** The limit of a start on a busy machine. Alone, Jupyter and Node-RED need 2 s, MariaDB 3 s. */
const START_MS = 90_000
const STOP_MS = 10_000
const RUN_MS = 60_000

/** The prefix of this process's folders in the system's temporary folder. */
export const SCRATCH_PREFIX = `cob-login-${process.pid}-`

/** A folder for this test only, removed at the end. */
export function scratchFolder(name: string): Disposable & { dir: string } {
  const dir = mkdtempSync(join(tmpdir(), `${SCRATCH_PREFIX}${name}-`))
  return { dir, [Symbol.dispose]: () => rmSync(dir, { recursive: true, force: true, maxRetries: 5 }) }
}

export function writeFiles(dir: string, files: Record<string, string>): void {
  for (const [name, content] of Object.entries(files)) {
    const path = join(dir, name)
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, content)
  }
}

export interface Program extends AsyncDisposable {
  port: number
  log(): string
  /** Ends the program, calls `change`, and starts the program again on the same port. */
  restart(change?: () => void): Promise<void>
}

interface Command {
  /** Called once, with the port. */
  command: (port: number) => string[]
  cwd: string
  env?: Record<string, string>
}

/** Starts a program, and resolves when it accepts connections. Disposing it ends its process group. */
export async function startProgram({ command, cwd, env = {} }: Command): Promise<Program> {
  const port = await freePort()
  const [file, ...args] = command(port)
  let child: ChildProcess
  let said = ''
  async function start(): Promise<void> {
    child = spawn(file!, args, { cwd, env: { PATH: process.env.PATH, LANG: 'C.UTF-8', HOME: cwd, ...env }, stdio: ['ignore', 'pipe', 'pipe'], detached: true })
    for (const stream of [child.stdout!, child.stderr!]) stream.on('data', (chunk: Buffer) => (said = (said + chunk.toString()).slice(-20_000)))
    await once(child, 'spawn')
    await until(
      `${file} to answer`,
      START_MS,
      () => {
        if (child.exitCode !== null || child.signalCode !== null)
          throw new Error(`${file} has ended with ${child.exitCode ?? child.signalCode}: ${said.slice(-3000)}`)
        return answers(port)
      },
      { everyMs: 50 },
    ).catch(async (error: unknown) => {
      await end(child)
      throw new Error(`${file} did not start: ${said.slice(-3000)}`, { cause: error })
    })
  }
  await start()
  return {
    port,
    log: () => said,
    async restart(change) {
      await end(child)
      change?.()
      await start()
    },
    [Symbol.asyncDispose]: () => end(child),
  }
}

/** Ends a process group: sends SIGTERM, waits, sends SIGKILL. */
async function end(child: ChildProcess): Promise<void> {
  const group = -child.pid!
  const signal = (name: NodeJS.Signals) => {
    try {
      process.kill(group, name)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
    }
  }
  if (child.exitCode === null && child.signalCode === null) {
    const gone = once(child, 'exit')
    signal('SIGTERM')
    const timer = setTimeout(() => signal('SIGKILL'), STOP_MS)
    await gone
    clearTimeout(timer)
  }
  // Kill the rest of the process group.
  signal('SIGKILL')
}

const answers = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => {
      socket.destroy()
      resolve(true)
    }).on('error', () => resolve(false))
  })

/** Runs a program to its end, and resolves with its output. @throws with the output when the program fails */
export async function runProgram(
  [file, ...args]: string[],
  { cwd, env = {}, input = '' }: { cwd: string; env?: Record<string, string>; input?: string },
): Promise<string> {
  const child = spawn(file!, args, {
    cwd,
    env: { PATH: process.env.PATH, LANG: 'C.UTF-8', HOME: cwd, ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
    timeout: RUN_MS,
    killSignal: 'SIGKILL',
  })
  let said = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (said += chunk.toString()))
  // The program may end before it has read all input.
  child.stdin.on('error', () => {})
  child.stdin.end(input)
  const [code, signal] = (await once(child, 'close')) as [number | null, string | null]
  if (code !== 0) throw new Error(`${file} ended with ${code ?? signal}: ${said.slice(-3000)}`)
  return said
}

const TREE = join(LOGINS_DIR, 'debian')
const ALONE = '--unshare-user --unshare-pid --unshare-ipc --die-with-parent --uid 1000 --gid 1000'.split(' ')
const FRESH = '--proc /proc --dev /dev --tmpfs /tmp --tmpfs /run'.split(' ')
const INSIDE = '--chdir /app --setenv PATH /usr/bin:/usr/sbin --setenv HOME /app --'.split(' ')

/**
 * A command that runs inside the unpacked Debian packages as an unprivileged user, with `dir` as /app. It shares only the loopback with this machine, no processes,
 * files or users. @param binds folders of `dir` to mount elsewhere, by their mount point
 */
export const inTree = (dir: string, binds: Record<string, string>, command: string[]): string[] => [
  'bwrap',
  ...ALONE,
  '--ro-bind',
  TREE,
  '/',
  ...FRESH,
  '--bind',
  dir,
  '/app',
  ...Object.entries(binds).flatMap(([place, folder]) => ['--bind', join(dir, folder), place]),
  ...INSIDE,
  ...command,
]
