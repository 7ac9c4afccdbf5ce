// Everything that a program has started, however far it went to get away: found, signalled, ended, weighed.
import { readFileSync, readdirSync } from 'node:fs'
import { descendantsOf, isAlive, KILLED_GONE_MS, killAll, nameProcess, readProcessFile, signalProcess, type ProcessName } from '../../base/processes.ts'
import { until, WaitTimeout } from '../../base/wait.ts'

/** How often it is looked whether processes that were asked to end have done so; a look reads all of /proc (some milliseconds). */
const LOOK_MS = 25

/**
 * The mark of a tree: its limit of bytes in POSIX message queues, one byte apart from the next tree's. Limits go to every
 * child, through fork, exec, setsid, a cleared environment and another user namespace; none can raise its own again, every
 * process may read them, and hardly a program uses this one. (Groups and sessions are left by daemons, ancestors lost with
 * a parent that ends, variables cleared, and a PID namespace would hide the session's processes from each other.)
 */
export class Marks {
  readonly #highest: number
  #given = 0

  /** `own` is the limit of the agent itself, which a child's cannot exceed. */
  constructor(own = messageQueueLimit('self')) {
    this.#highest = Math.min(own ?? 0, 2 ** 30)
  }

  /** Undefined where there is no room for marks: a tree then is the program's descendants. */
  next(): number | undefined {
    // The lower half is left to programs that set a limit of their own.
    const room = Math.floor(this.#highest / 2)
    return room < 1 ? undefined : this.#highest - 1 - (this.#given++ % room)
  }
}

/** The command that runs a program with the mark. It becomes the program: same pid, no process more. */
export const marked = (mark: number | undefined, command: readonly string[]): string[] =>
  mark === undefined ? [...command] : ['/usr/bin/prlimit', `--msgqueue=${mark}`, '--', ...command]

/** A program and whatever came of it. */
export class Tree {
  readonly #root: ProcessName | undefined
  readonly #mark: number | undefined

  constructor(pid: number, mark: number | undefined) {
    this.#root = nameProcess(pid)
    this.#mark = mark
  }

  /** Those that are alive. */
  members(): ProcessName[] {
    const below = this.#root && isAlive(this.#root) ? [this.#root.pid, ...descendantsOf(this.#root.pid)] : []
    const pids = new Set(below)
    if (this.#mark !== undefined)
      for (const entry of readdirSync('/proc')) if (/^\d+$/.test(entry) && messageQueueLimit(entry) === this.#mark) pids.add(Number(entry))
    return [...pids].map(nameProcess).filter((name) => name !== undefined)
  }

  /** Sends a signal to each. One that is stopped is told to go on, or it would not hear it. */
  signal(signal: NodeJS.Signals): void {
    const names = this.members()
    for (const name of names) signalProcess(name, signal)
    if (signal !== 'SIGKILL') for (const name of names) signalProcess(name, 'SIGCONT')
  }

  /** Ends all: asks with SIGTERM, and kills what is left after `graceMs`. @throws WaitTimeout when the kernel does not let go of one */
  async end(graceMs: number): Promise<void> {
    if (graceMs > 0) {
      this.signal('SIGTERM')
      try {
        await until('a program to end', graceMs, () => this.members().length === 0, { everyMs: LOOK_MS })
        return
      } catch (error) {
        if (!(error instanceof WaitTimeout)) throw error
      }
    }
    // What is killed may have been about to start something, so it is looked again until nothing is found.
    await until('a program to be killed', KILLED_GONE_MS, async () => {
      const left = this.members()
      await killAll(left)
      return left.length === 0
    })
  }

  /** CPU time used so far, in seconds, and resident memory, in bytes, of all that are alive. */
  usage(): { cpuSeconds: number; memoryBytes: number } {
    let [ticks, memoryBytes] = [0, 0]
    for (const { pid } of this.members()) {
      try {
        const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
        // utime, stime, and those of children that have ended (proc_pid_stat(5): fields 14 to 17).
        for (const field of stat
          .slice(stat.lastIndexOf(')') + 2)
          .split(' ')
          .slice(11, 15))
          ticks += Number(field)
        memoryBytes += Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) * 1024
      } catch {} // it ended in between
    }
    return { cpuSeconds: ticks / TICKS_PER_SECOND, memoryBytes }
  }
}

/** USER_HZ, which the kernel promises to programs whatever its own clock is. */
const TICKS_PER_SECOND = 100

/** The hard limit of bytes in message queues of a process; undefined when it is gone. */
function messageQueueLimit(pid: string): number | undefined {
  const hard = /^Max msgqueue size\s+\S+\s+(\S+)/m.exec(readProcessFile(pid, 'limits') ?? '')?.[1]
  return hard === 'unlimited' ? Infinity : hard === undefined ? undefined : Number(hard)
}
