// Finds, signals, ends and measures all processes that a program has started, also those that have detached from it.
import { readFileSync, readdirSync } from 'node:fs'
import { descendantsOf, isAlive, KILLED_GONE_MS, killAll, nameProcess, readProcessFile, signalProcess, type ProcessName } from '../../base/processes.ts'
import { until, WaitTimeout } from '../../base/wait.ts'

/** How often to check whether signalled processes have ended; one check reads all of /proc (some milliseconds). */
const LOOK_MS = 25

/**
 * The mark of a process tree: its limit of bytes in POSIX message queues, one byte less than the previous tree's. Every child inherits limits,
 * through fork, exec, setsid, a cleared environment and another user namespace. No process can raise its own, every process can read them, and hardly
 * any program uses this one. (Daemons leave process groups and sessions, a child loses its ancestors when a parent ends, variables can be cleared,
 * and a PID namespace would hide the session's processes from each other.)
 */
export class Marks {
  readonly #highest: number
  #given = 0

  /** `own` is the agent's own limit, which a child cannot exceed. */
  constructor(own = messageQueueLimit('self')) {
    this.#highest = Math.min(own ?? 0, 2 ** 30)
  }

  /** Undefined when the limit has no room for marks: then a tree is the program's descendants. */
  next(): number | undefined {
    // The lower half is left to programs that set this limit themselves.
    const room = Math.floor(this.#highest / 2)
    return room < 1 ? undefined : this.#highest - 1 - (this.#given++ % room)
  }
}

/** The command that sets the mark and then becomes the program: same pid, no extra process. */
export const marked = (mark: number | undefined, command: readonly string[]): string[] =>
  mark === undefined ? [...command] : ['/usr/bin/prlimit', `--msgqueue=${mark}`, '--', ...command]

/** A program and all processes that it has started. */
export class Tree {
  readonly #root: ProcessName | undefined
  readonly #mark: number | undefined

  constructor(pid: number, mark: number | undefined) {
    this.#root = nameProcess(pid)
    this.#mark = mark
  }

  /** The processes that are alive. */
  members(): ProcessName[] {
    const below = this.#root && isAlive(this.#root) ? [this.#root.pid, ...descendantsOf(this.#root.pid)] : []
    const pids = new Set(below)
    if (this.#mark !== undefined)
      for (const entry of readdirSync('/proc')) if (/^\d+$/.test(entry) && messageQueueLimit(entry) === this.#mark) pids.add(Number(entry))
    return [...pids].map(nameProcess).filter((name) => name !== undefined)
  }

  /** Sends a signal to each. A stopped process also gets SIGCONT; otherwise it would not handle the signal. */
  signal(signal: NodeJS.Signals): void {
    const names = this.members()
    for (const name of names) signalProcess(name, signal)
    if (signal !== 'SIGKILL') for (const name of names) signalProcess(name, 'SIGCONT')
  }

  /** Ends all: sends SIGTERM, and SIGKILL after `graceMs`. @throws WaitTimeout when a killed process does not disappear */
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
    // A process may start another just before it is killed, so repeat until none is found.
    await until('a program to be killed', KILLED_GONE_MS, async () => {
      const left = this.members()
      await killAll(left)
      return left.length === 0
    })
  }

  /** CPU time used so far, in seconds, and resident memory, in bytes, of all processes that are alive. */
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

/** USER_HZ: the kernel uses it in /proc whatever its own clock rate is. */
const TICKS_PER_SECOND = 100

/** A process's hard limit of bytes in message queues; undefined when it has ended. */
function messageQueueLimit(pid: string): number | undefined {
  const hard = /^Max msgqueue size\s+\S+\s+(\S+)/m.exec(readProcessFile(pid, 'limits') ?? '')?.[1]
  return hard === 'unlimited' ? Infinity : hard === undefined ? undefined : Number(hard)
}
