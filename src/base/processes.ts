// Processes by number: who is alive, whose children, how to end a group. Linux only (/proc).
import { readFileSync, readdirSync } from 'node:fs'
import { WaitTimeout, until } from './wait.ts'

/** How long a killed process may take to leave the process table. SIGKILL is not negotiable, so this only bounds the kernel. */
export const KILLED_GONE_MS = 5_000

/** What the kernel says when a process has gone: its folder is not there, it went while its file was read, it has no mounts any more. */
const GONE = ['ENOENT', 'ESRCH', 'EINVAL']
/** Files of another user's process that only that user and root may read. */
const CLOSED = ['EACCES', 'EPERM']

/**
 * A file of a process; undefined when there is no such process. @throws when it cannot be looked at (no descriptor is free, the process is
 * another user's): nobody may take it for gone then.
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
 * When the process started, in clock ticks since boot (field 22 of /proc/pid/stat): with its pid, a name that is never reused.
 * Undefined when there is no such process or only its zombie is left. @throws when it cannot be looked at
 */
export function startTicks(pid: number): string | undefined {
  const stat = readProcessFile(pid, 'stat')
  const fields = stat?.slice(stat.lastIndexOf(')') + 2).split(' ')
  return fields === undefined || fields[0] === 'Z' || fields[0] === 'X' ? undefined : fields[19]
}

/** Children of `pid`, as the kernel lists them; empty when it is gone. @throws when it cannot be looked at */
export function childrenOf(pid: number): number[] {
  return (readProcessFile(pid, `task/${pid}/children`) ?? '').split(' ').filter(Boolean).map(Number)
}

/** Every descendant of `pid`, nearest first. */
export function descendantsOf(pid: number): number[] {
  const found = childrenOf(pid)
  for (let i = 0; i < found.length; i++) found.push(...childrenOf(found[i]!))
  return found
}

/**
 * Every process that has `path` in its mounts, or names both it and `program` in its command line (an operator who looks
 * at a log names the path, too). For finding what a killed service has started and not yet written down; reads all of
 * /proc (some milliseconds). @throws when it cannot look
 */
export function processesUsing(path: string, program: string): ProcessName[] {
  const uses = (pid: number, file: string, ...words: string[]) => {
    try {
      const text = readProcessFile(pid, file)
      return text !== undefined && words.every((word) => text.includes(word))
    } catch (error) {
      if (!CLOSED.includes((error as NodeJS.ErrnoException).code ?? '')) throw error
      return false // another user's, so not one of ours
    }
  }
  return readdirSync('/proc')
    .filter((entry) => /^\d+$/.test(entry) && Number(entry) !== process.pid)
    .map(Number)
    .filter((pid) => uses(pid, 'cmdline', path, program) || uses(pid, 'mountinfo', path))
    .map(nameProcess)
    .filter((name) => name !== undefined)
}

/** A process named so that a reused pid is not mistaken for it. */
export interface ProcessName {
  pid: number
  ticks: string
}

/** @throws when it cannot be looked at */
export const nameProcess = (pid: number): ProcessName | undefined => {
  const ticks = startTicks(pid)
  return ticks === undefined ? undefined : { pid, ticks }
}

/** Whether a process is there. One that cannot be looked at is: what is wrongly taken for gone would be left, or started twice. */
export function isAlive(name: ProcessName): boolean {
  try {
    return startTicks(name.pid) === name.ticks
  } catch {
    return true
  }
}

/**
 * Sends a signal to a process, or with `group` to the group it leads; a process that has gone is no error. @throws when it cannot be looked
 * at: its number may be another's by now
 */
export function signalProcess(name: ProcessName, signal: NodeJS.Signals, group = false): void {
  if (startTicks(name.pid) !== name.ticks) return
  try {
    process.kill(group ? -name.pid : name.pid, signal)
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

/** Asks a process to end, and kills it when it has not within `ms`. */
export async function terminate(name: ProcessName, ms: number, ask: NodeJS.Signals = 'SIGTERM'): Promise<void> {
  signalProcess(name, ask)
  try {
    await until('a process to end', ms, () => !isAlive(name), { everyMs: 5 })
  } catch (error) {
    if (!(error instanceof WaitTimeout)) throw error
    await killAll([name])
  }
}
