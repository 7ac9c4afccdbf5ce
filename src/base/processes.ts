// Processes by pid: which are alive, their children, how to end a group. Linux only (/proc).
import { readFileSync, readdirSync } from 'node:fs'
import { open, readdir, type FileHandle } from 'node:fs/promises'
import { WaitTimeout, until } from './wait.ts'

/** Timeout for a killed process to leave the process table. A process cannot ignore SIGKILL, so this only bounds the kernel's work. */
export const KILLED_GONE_MS = 5_000

/** Error codes for a process that has gone: its folder does not exist, it ended while its file was read, or it has no mounts left. */
const GONE = ['ENOENT', 'ESRCH', 'EINVAL']
/** Files of another user's process that only that user and root may read. */
const CLOSED = ['EACCES', 'EPERM']

/**
 * Reads a file of a process; undefined when the process does not exist. @throws when it cannot look (no descriptor is free, the process is
 * another user's): the caller must not take that process for gone.
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
 * When the process started, in clock ticks since boot (field 22 of /proc/pid/stat). Together with the pid it identifies a process; the pair is
 * never reused. Undefined when the process does not exist or is a zombie. @throws when it cannot be looked at
 */
export function startTicks(pid: number): string | undefined {
  const stat = readProcessFile(pid, 'stat')
  const fields = stat?.slice(stat.lastIndexOf(')') + 2).split(' ')
  return fields === undefined || fields[0] === 'Z' || fields[0] === 'X' ? undefined : fields[19]
}

/** Children of `pid`, as the kernel lists them for each of its threads; empty when it is gone. @throws when it cannot be looked at */
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
 * The beginning of a file of a process, of at most `max` bytes; undefined when the process does not exist. Programs choose what is in some of these
 * files, up to megabytes for each process. @throws when it cannot look, as {@link readProcessFile}
 */
export async function readProcessHead(pid: number | string, file: string, max: number): Promise<string | undefined> {
  let handle: FileHandle | undefined
  try {
    handle = await open(`/proc/${pid}/${file}`)
    const bytes = Buffer.alloc(max)
    // The kernel gives a page or less of many of these files at once.
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
 * Every process that has `path` in its mounts, or has both `path` and `program` in its command line (an operator who reads a log has the path
 * alone there). Finds what a killed service has started and not yet recorded. Looks at every process of the machine, at the beginning of the two files:
 * a session can have many processes with large ones. @throws when it cannot look
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
 * Whether a process exists. A process that cannot be looked at counts as existing: if it were wrongly taken for gone, it would be left running or
 * started twice.
 */
export function isAlive(name: ProcessName): boolean {
  try {
    return startTicks(name.pid) === name.ticks
  } catch {
    return true
  }
}

/**
 * Sends a signal to a process, or with `group` to the process group that it leads. A process that has gone is no error. @throws when it cannot be
 * looked at: its pid may belong to another process by now
 */
export function signalProcess(name: ProcessName, signal: NodeJS.Signals, group = false): void {
  if (startTicks(name.pid) !== name.ticks) return
  try {
    process.kill(group ? -name.pid : name.pid, signal)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

/** Kills the process that has this pid now. For a pid that the kernel has just named. */
export function killAt(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
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
