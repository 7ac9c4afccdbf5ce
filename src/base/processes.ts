// Processes by pid: which are alive, their children, how to end a group. Linux only (/proc).
import { readFileSync, readdirSync } from 'node:fs'
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
 * Every process that has `path` in its mounts, or has both `path` and `program` in its command line (an operator who reads a log has the path
 * alone there). Finds what a killed service has started and not yet recorded. Reads all of /proc (some milliseconds). @throws when it cannot look
 */
export function processesUsing(path: string, program: string): ProcessName[] {
  const uses = (pid: number, file: string, ...words: string[]) => {
    try {
      const text = readProcessFile(pid, file)
      return text !== undefined && words.every((word) => text.includes(word))
    } catch (error) {
      if (!CLOSED.includes((error as NodeJS.ErrnoException).code ?? '')) throw error
      return false // another user's process, so it cannot be one of ours
    }
  }
  return readdirSync('/proc')
    .filter((entry) => /^\d+$/.test(entry) && Number(entry) !== process.pid)
    .map(Number)
    .filter((pid) => uses(pid, 'cmdline', path, program) || uses(pid, 'mountinfo', path))
    .map(nameProcess)
    .filter((name) => name !== undefined)
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
