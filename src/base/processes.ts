// Processes by pid: which are alive, their children, how to end one or a group of them. Linux only (/proc).
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, readdirSync } from 'node:fs'
import { open, readdir, type FileHandle } from 'node:fs/promises'
import { WaitTimeout, resultWithin, until, within } from './wait.ts'

/** Timeout for a killed process to leave the process table. A process cannot ignore SIGKILL, so this only bounds the kernel's work. */
export const KILLED_GONE_MS = 5_000

/** Error codes for a process that has ended: its folder does not exist, it ended while its file was read, or it has no mounts left. */
const GONE = ['ENOENT', 'ESRCH', 'EINVAL']
/** Files of another user's process that only that user and root may read. */
const CLOSED = ['EACCES', 'EPERM']

/**
 * Reads a file of a process; undefined when the process does not exist. @throws when it cannot be read (no descriptor is free, or the process is another
 * user's): the caller must not conclude that the process has ended.
 */
export function readProcessFile(pid: number | string, file: string): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8')
  } catch (error) {
    if (GONE.includes((error as NodeJS.ErrnoException).code ?? '')) return undefined
    throw error
  }
}

/**
 * When the process started, in clock ticks since boot (field 22 of /proc/pid/stat). Together with the pid it identifies a process; the pair is never reused.
 * Undefined when the process does not exist or is a zombie. @throws when it cannot be read
 */
export function startTicks(pid: number): string | undefined {
  const stat = readProcessFile(pid, 'stat')
  const fields = stat?.slice(stat.lastIndexOf(')') + 2).split(' ')
  return fields === undefined || fields[0] === 'Z' || fields[0] === 'X' ? undefined : fields[19]
}

/** Children of `pid`, as the kernel lists them for each of its threads; empty when it has ended. @throws when it cannot be read */
export function childrenOf(pid: number): number[] {
  return threadsOf(pid).flatMap((thread) => (readProcessFile(pid, `task/${thread}/children`) ?? '').split(' ').filter(Boolean).map(Number))
}

function threadsOf(pid: number): string[] {
  try {
    return readdirSync(`/proc/${pid}/task`)
  } catch (error) {
    if (GONE.includes((error as NodeJS.ErrnoException).code ?? '')) return []
    throw error
  }
}

/** Every descendant of `pid`, nearest first. */
export function descendantsOf(pid: number): number[] {
  const found = childrenOf(pid)
  for (let i = 0; i < found.length; i++) found.push(...childrenOf(found[i]!))
  return found
}

/**
 * The beginning of a file of a process, of at most `max` bytes; undefined when the process does not exist. Programs choose what is in some of these files, up
 * to megabytes for each process. @throws when it cannot be read, like {@link readProcessFile}
 */
export async function readProcessHead(pid: number | string, file: string, max: number): Promise<string | undefined> {
  let handle: FileHandle | undefined
  try {
    handle = await open(`/proc/${pid}/${file}`)
    const bytes = Buffer.alloc(max)
    // The kernel returns a page or less per read for many of these files.
    let length = 0
    for (let read = -1; length < max && read !== 0; length += read) ({ bytesRead: read } = await handle.read(bytes, length, max - length))
    return bytes.toString('utf8', 0, length)
  } catch (error) {
    if (GONE.includes((error as NodeJS.ErrnoException).code ?? '')) return undefined
    throw error
  } finally {
    await handle?.close()
  }
}

/** The command line that starts a sandbox has 5 KB, and its path is in the first 2 KB. */
const MAX_COMMAND_LINE = 16 * 1024
/** A sandbox has mounts of 7 KB, and its own folders are among the first. A process in a user namespace of its own can have 100,000 mounts. */
const MAX_MOUNTS = 64 * 1024

/**
 * Every process that has `path` in its mounts, or has both `path` and `program` in its command line (an operator who reads a log has the path alone there).
 * Finds what a killed service has started and not yet recorded. Reads the beginning of the two files of every process of the machine: a session can have many
 * processes with large files. @throws when they cannot be read
 */
export async function processesUsing(path: string, program: string): Promise<ProcessName[]> {
  const uses = async (pid: string, file: string, max: number, ...words: string[]) => {
    try {
      const text = await readProcessHead(pid, file, max)
      return text !== undefined && words.every((word) => text.includes(word))
    } catch (error) {
      if (!CLOSED.includes((error as NodeJS.ErrnoException).code ?? '')) throw error
      return false // another user's process, so it cannot be one of ours
    }
  }
  const found: ProcessName[] = []
  for (const pid of await readdir('/proc')) {
    if (!/^\d+$/.test(pid) || Number(pid) === process.pid) continue
    if (!(await uses(pid, 'cmdline', MAX_COMMAND_LINE, path, program)) && !(await uses(pid, 'mountinfo', MAX_MOUNTS, path))) continue
    const name = nameProcess(Number(pid))
    if (name) found.push(name)
  }
  return found
}

/** Identifies a process, so that a reused pid is not mistaken for it. */
export interface ProcessName {
  pid: number
  ticks: string
}

/** @throws when it cannot be looked at */
export const nameProcess = (pid: number): ProcessName | undefined => {
  const ticks = startTicks(pid)
  return ticks === undefined ? undefined : { pid, ticks }
}

/**
 * Whether a process exists. A process that cannot be checked counts as existing: if it were wrongly taken for ended, it would be left running or started twice.
 */
export function isAlive(name: ProcessName): boolean {
  try {
    return startTicks(name.pid) === name.ticks
  } catch {
    return true
  }
}

/**
 * Sends a signal to a process, or with `group` to the process group that it leads. A process that has ended is no error. @throws when it cannot be checked: its
 * pid may belong to another process by now
 */
export function signalProcess(name: ProcessName, signal: NodeJS.Signals, group = false): void {
  if (startTicks(name.pid) === name.ticks) send(group ? -name.pid : name.pid, signal)
}

/** Kills the process that has this pid now. Use it for a pid that the kernel has just listed. */
export const killAt = (pid: number): void => void send(pid, 'SIGKILL')

/** Sends the signal (0 only asks); false when it fails with one of `expected`. */
function send(pid: number, signal: NodeJS.Signals | 0, expected = ['ESRCH']): boolean {
  try {
    return process.kill(pid, signal)
  } catch (error) {
    if (!expected.includes((error as NodeJS.ErrnoException).code ?? '')) throw error
    return false
  }
}

/**
 * Kills the process group of a child that was spawned with `detached`: the child and what it has started. When the child has ended, the others of
 * its group are killed. Processes of another user stay: {@link endProcessGroup} times out if the child is one of them.
 */
export function killProcessGroup(child: ChildProcess): void {
  const { pid, exitCode, signalCode } = child
  if (pid === undefined) return // it could not be started
  // The kernel does not reuse a pid while a process has it, or while it names a group. So a process that has the pid of an ended child is another one.
  if ((exitCode !== null || signalCode !== null) && send(pid, 0, ['ESRCH', 'EPERM'])) return
  send(-pid, 'SIGKILL', ['ESRCH', 'EPERM'])
}

/** Kills the process group of a child, as {@link killProcessGroup}, and waits for `ended`: the child's end. @throws WaitTimeout that names `what` */
export async function endProcessGroup<T>(what: string, child: ChildProcess, ended: Promise<T>): Promise<T> {
  killProcessGroup(child)
  return await within(`${what} to end`, KILLED_GONE_MS, ended)
}

/** The end of what a program has printed, in characters. */
const SAID = 2_000

/**
 * Waits for the end of a program that was just spawned, at most `ms`. Kills it when the time is over or `signal` aborts. Resolves with its exit status (null: a
 * signal has ended it) and the end of what it has printed into its pipes. @throws WaitTimeout that names `what`; the signal's reason; the error of a program
 * that could not be started
 */
export async function runToEnd(what: string, ms: number, child: ChildProcess, signal?: AbortSignal): Promise<{ status: number | null; said: string }> {
  let said = ''
  for (const stream of [child.stdout, child.stderr]) stream?.on('data', (chunk: Buffer) => (said = (said + chunk.toString()).slice(-SAID)))
  const closed = once(child, 'close') as Promise<[number | null]>
  try {
    const [status] = await within(what, ms, closed, signal)
    return { status, said }
  } catch (error) {
    child.kill('SIGKILL')
    await resultWithin(KILLED_GONE_MS, closed).catch(() => {}) // it could not be started
    throw error
  }
}

/** Kills the processes (and the groups they lead), then waits until none is left. */
export async function killAll(names: readonly ProcessName[]): Promise<void> {
  for (const name of names) {
    signalProcess(name, 'SIGKILL')
    signalProcess(name, 'SIGKILL', true)
  }
  await until('killed processes to leave', KILLED_GONE_MS, () => names.every((name) => !isAlive(name)), { everyMs: 2 })
}

/** Asks a process to end, and kills it when it has not ended within `ms`. */
export async function terminate(name: ProcessName, ms: number, ask: NodeJS.Signals = 'SIGTERM'): Promise<void> {
  signalProcess(name, ask)
  try {
    await until('a process to end', ms, () => !isAlive(name), { everyMs: 5 })
  } catch (error) {
    if (!(error instanceof WaitTimeout)) throw error
    await killAll([name])
  }
}
