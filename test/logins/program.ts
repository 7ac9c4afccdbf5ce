// Programs of login applications: started on a free port in a scratch folder, restarted with other files, ended with all their children.
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { until } from '../../src/base/wait.ts'
import { freePort } from '../support/free-port.ts'
import { LOGINS_DIR } from './app.ts'

/** Jupyter and Node-RED alone need 2 s, MariaDB 3 s; this is for a busy machine. */
const START_MS = 90_000
const STOP_MS = 10_000
const RUN_MS = 60_000

/** How the names of the folders of this process begin, in the machine's folder for temporary files. */
export const SCRATCH_PREFIX = `cob-login-${process.pid}-`

/** A folder that only this test uses, removed at the end. */
export function scratchFolder(name: string): Disposable & { dir: string } {
  const dir = mkdtempSync(join(tmpdir(), `${SCRATCH_PREFIX}${name}-`))
  return { dir, [Symbol.dispose]: () => rmSync(dir, { recursive: true, force: true, maxRetries: 5 }) }
}

/** Writes files below a folder, by path. */
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
  /** Ends it, calls `change`, and starts it again on the same port. */
  restart(change?: () => void): Promise<void>
}

interface Command {
  /** Called once with the port. */
  command: (port: number) => string[]
  cwd: string
  env?: Record<string, string>
}

/** Starts a program; resolves when it accepts connections. Disposing ends its process group. */
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

/** Ends a process group: asks, waits, kills. */
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
  // What it has started and left.
  signal('SIGKILL')
}

const answers = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => {
      socket.destroy()
      resolve(true)
    }).on('error', () => resolve(false))
  })

/** Runs a program to its end. @throws with its output when it fails */
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
  // It may end before it has read all.
  child.stdin.on('error', () => {})
  child.stdin.end(input)
  const [code, signal] = (await once(child, 'close')) as [number | null, string | null]
  if (code !== 0) throw new Error(`${file} ended with ${code ?? signal}: ${said.slice(-3000)}`)
  return said
}

const TREE = join(LOGINS_DIR, 'debian')

/**
 * A command inside the unpacked Debian packages, as a user without rights, with `dir` as /app. It has no processes, files or users in common with this machine, only its loopback.
 * @param binds - folders of `dir` that are mounted elsewhere, by the place in the tree
 */
export const inTree = (dir: string, binds: Record<string, string>, command: string[]): string[] => [
  'bwrap',
  '--unshare-user',
  '--unshare-pid',
  '--unshare-ipc',
  '--die-with-parent',
  '--uid',
  '1000',
  '--gid',
  '1000',
  '--ro-bind',
  TREE,
  '/',
  '--proc',
  '/proc',
  '--dev',
  '/dev',
  '--tmpfs',
  '/tmp',
  '--tmpfs',
  '/run',
  '--bind',
  dir,
  '/app',
  ...Object.entries(binds).flatMap(([place, folder]) => ['--bind', join(dir, folder), place]),
  '--chdir',
  '/app',
  '--setenv',
  'PATH',
  '/usr/bin:/usr/sbin',
  '--setenv',
  'HOME',
  '/app',
  '--',
  ...command,
]
