// The memory and CPU use of processes as the kernel counts them: memory from smaps_rollup, CPU time from /proc or a cpuacct group.
import { accessSync, constants, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { descendantsOf } from '../src/base/processes.ts'
import { until } from '../src/base/wait.ts'
import { say } from './say.ts'

/** The clock ticks per second in /proc/pid/stat; on Linux always 100. */
const TICKS = 100
const EMPTY_MS = 10_000

/** A process and all its descendants. */
export const tree = (pid: number): number[] => [pid, ...descendantsOf(pid)]

// Empty when the process has ended in the meantime.
function read(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EACCES' || code === 'EPERM') denied()
    return ''
  }
}

let wasDenied = false
function denied(): void {
  if (!wasDenied) say('the memory of some processes is hidden from this user and is not counted: run as root for reliable figures')
  wasDenied = true
}

/** Memory of the processes in MB: their private memory, and their share of shared memory (Pss). */
export function memoryMb(pids: readonly number[]): number {
  return pids.reduce((sum, pid) => sum + Number(/^Pss:\s+(\d+) kB/m.exec(read(`/proc/${pid}/smaps_rollup`))?.[1] ?? 0), 0) / 1024
}

/** The CPU seconds of the processes, including their ended children. */
export const cpuSeconds = (pids: readonly number[]): number => pids.reduce((sum, pid) => sum + cpuOf(pid, 11), 0)

/** The CPU seconds of all ended children of this process. */
export const cpuSecondsOfEnded = (): number => cpuOf(process.pid, 13)

// Adds utime, stime, cutime and cstime (fields 11 to 14), or with `from` 13 only the last two. The fields are counted after the name.
function cpuOf(pid: number, from: number): number {
  const stat = read(`/proc/${pid}/stat`)
  if (stat === '') return 0
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return fields.slice(from, 15).reduce((sum, field) => sum + Number(field), 0) / TICKS
}

/** Counts the CPU time of all processes that are started in it, and of their children. */
export interface Meter extends AsyncDisposable {
  started<T>(start: () => Promise<T>): Promise<T>
  /** The CPU seconds so far. `pids` are the started processes, for machines that have only /proc. */
  seconds(pids: readonly number[]): number
  /** Whether it includes ended processes. If not, read the meter before they end. */
  countsEnded: boolean
}

const CPUACCT = '/sys/fs/cgroup/cpuacct'

const ownGroup = (): string => join(CPUACCT, /^\d+:(?:.*,)?cpuacct(?:,.*)?:(.*)$/m.exec(readFileSync('/proc/self/cgroup', 'utf8'))?.[1] ?? '/')

/** A meter that uses a cpuacct group (nanoseconds, complete), or /proc (ticks of 10 ms, without ended processes). When meters are nested, both count. */
export function openMeter(name: string): Meter {
  try {
    accessSync(CPUACCT, constants.W_OK)
  } catch {
    return { started: (start) => start(), seconds: cpuSeconds, countsEnded: false, async [Symbol.asyncDispose]() {} }
  }
  const outer = ownGroup()
  const group = join(outer, `cob-bench-${process.pid}-${name}`)
  const enter = (dir: string) => writeFileSync(join(dir, 'cgroup.procs'), String(process.pid))
  mkdirSync(group)
  return {
    // Child processes inherit this process's group, so they need not be moved after their start.
    async started(start) {
      enter(group)
      try {
        return await start()
      } finally {
        enter(outer)
      }
    },
    seconds: () => Number(readFileSync(join(group, 'cpuacct.usage'), 'utf8')) / 1e9,
    countsEnded: true,
    async [Symbol.asyncDispose]() {
      await until('the CPU meter to be empty', EMPTY_MS, () => readFileSync(join(group, 'cgroup.procs'), 'utf8') === '')
      rmdirSync(group)
    },
  }
}

/** The CPU use of others since `before`, in percent of all cores: of other programs, and of a virtual machine's host. */
export interface Others {
  programs: number | undefined
  host: number
}

/** Starts to measure the CPU use of others; `meter` counts our own use. */
export function watchOthers(meter: Meter): () => Others {
  const read = () => {
    // The fields: user, nice, system, idle, iowait, irq, softirq, steal
    const ticks = readFileSync('/proc/stat', 'utf8').split('\n')[0]!.split(/\s+/).slice(1, 9).map(Number)
    const all = ticks.reduce((sum, value) => sum + value, 0) / TICKS
    const stolen = ticks[7]! / TICKS
    return { all, stolen, busy: all - stolen - (ticks[3]! + ticks[4]!) / TICKS, ours: meter.countsEnded ? meter.seconds([]) : 0 }
  }
  const before = read()
  return () => {
    const now = read()
    const all = Math.max(1, now.all - before.all)
    const others = Math.max(0, now.busy - before.busy - (now.ours - before.ours))
    return { programs: meter.countsEnded ? (100 * others) / all : undefined, host: (100 * (now.stolen - before.stolen)) / all }
  }
}
