// Memory, process and CPU limits of instances by cgroups: version 2 where it is delegated, else version 1. Where there is neither, `cob doctor`
// says so.
import { accessSync, constants, existsSync, mkdirSync, readFileSync, statfsSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { dirname, join } from 'node:path'
import { quote } from '../../base/shell.ts'
import { isRoot } from '../../base/user.ts'
import { until } from '../../base/wait.ts'
import { processesIn, removed, ROOT, scopesIn, subgroups } from './cgroups.ts'
import { removeFreezersOf, v1Freezer, v2Freezer, type Freezer } from './freezer.ts'

export interface InstanceLimits {
  memoryBytes: number
  pids: number
  /** Limit on CPU time, in percent of one core; 0 for no limit. */
  cpuPercent: number
}

export interface Limits {
  /** Makes the groups of an instance. Returns the files by which a process enters them. */
  make(id: string, limits: InstanceLimits): string[]
  /** Gives an instance little of the CPU while others need it, or its equal share again. No effect where the CPU is not shared. */
  yield(id: string, toOthers: boolean): void
  /** Processes in the groups of an instance, and in subgroups that it has made. */
  members(id: string): number[]
  /** The number of programs of an instance that the kernel has killed for lack of memory; 0 where it is unknown. */
  killedForMemory(id: string): number
  /** Removes the groups of an instance. All processes in them must have ended. */
  remove(id: string): Promise<void>
  /** Ids of instances that have groups. */
  list(): string[]
  /** Stops unused instances; undefined where that is not possible. */
  freezer?: Freezer | undefined
  /** A shell line that returns memory of an instance to the machine. It ends when nothing more can be returned. */
  reclaiming?: (id: string) => string
  /** Whether the kernel supports {@link reclaiming}. */
  canReclaim?: boolean
  /** Whether the kernel bounds the memory of instances. */
  boundsMemory: boolean
  /** Whether instances get equal shares of the CPUs, and can be limited to a part of them. */
  sharesCpu: boolean
  /** The limits that are not enforced here, for `cob doctor`. */
  findings: string[]
}

const FREE_MS = 5_000
/** statfs magic of a cgroup 2 mount (linux/magic.h). */
const CGROUP2_MAGIC = 0x63677270
/** The period of a CPU limit, in microseconds: the kernel's own default. */
const CPU_PERIOD_US = 100_000
/** The share of an instance that yields to others, and that of any other one: cpu.weight of version 2, cpu.shares of version 1. */
const YIELDING = { weight: 25, shares: 256 }
const EQUAL = { weight: 100, shares: 1024 }
/** cpu.weight of an unprivileged service relative to that of all its instances, which is 100. */
const SERVICE_WEIGHT = 300

/** Finds out what this machine supports. `scope` separates the groups of two services on one machine. */
export function findLimits(scope: string): Limits {
  try {
    return statfsSync(ROOT).type === CGROUP2_MAGIC ? v2(scope) : v1(scope)
  } catch (error) {
    return {
      make: () => [],
      yield: () => {},
      members: () => [],
      killedForMemory: () => 0,
      remove: async () => {},
      list: () => [],
      boundsMemory: false,
      sharesCpu: false,
      findings: [
        `cgroups cannot be used (${(error as Error).message}): the memory of instances is counted every few seconds instead of bounded, and one instance may slow the others`,
      ],
    }
  }
}

const NO_CPU = 'the cpu controller of cgroups cannot be used: one instance may slow the others'

function v2(scope: string): Limits {
  const own = join(ROOT, /^0::(.*)$/m.exec(readFileSync('/proc/self/cgroup', 'utf8'))?.[1] ?? '/')
  const parent = isRoot() ? ROOT : own
  accessSync(parent, constants.W_OK)
  if (!/memory.*pids|pids.*memory/.test(readFileSync(join(parent, 'cgroup.controllers'), 'utf8')))
    throw new Error('the memory and pids controllers are not delegated to this user')
  const base = join(parent, `cob-${scope}`)
  const hasCpu = /\bcpu\b/.test(readFileSync(join(parent, 'cgroup.controllers'), 'utf8'))
  const prepare = () => {
    if (!isRoot()) {
      // A delegated group may not hold processes and enabled controllers at once, so the service moves to a group of its own first.
      mkdirSync(join(own, 'cob-service'), { recursive: true })
      writeFileSync(join(own, 'cob-service', 'cgroup.procs'), String(process.pid))
    }
    for (const dir of [parent, base]) writeFileSync(join(dir, 'cgroup.subtree_control'), `+memory +pids${hasCpu ? ' +cpu' : ''}`)
    if (!isRoot() && hasCpu) writeFileSync(join(own, 'cob-service', 'cpu.weight'), String(SERVICE_WEIGHT))
  }
  const share = ([dir]: string[], { weight }: typeof EQUAL) => writeIfThere(join(dir!, 'cpu.weight'), String(weight))
  const limit = ([dir]: string[], { memoryBytes, pids, cpuPercent }: InstanceLimits) => {
    writeFileSync(join(dir!, 'memory.max'), String(memoryBytes))
    writeIfThere(join(dir!, 'memory.swap.max'), '0')
    writeFileSync(join(dir!, 'pids.max'), String(pids))
    if (hasCpu && cpuPercent > 0) writeFileSync(join(dir!, 'cpu.max'), `${cpuTime(cpuPercent)} ${CPU_PERIOD_US}`)
  }
  return {
    ...groups([base], hasCpu, prepare, share, limit),
    killedForMemory: (id) => killsIn(join(base, id, 'memory.events')),
    freezer: v2Freezer(base),
    reclaiming: (id) => v2Reclaiming(join(base, id)),
    canReclaim: existsSync(join(parent, 'memory.reclaim')),
  }
}

/**
 * The kernel answers with an error when it reclaims less than requested, or is interrupted. The memory of an instance may go to swap only while it sleeps: its
 * limit has to bound both.
 */
const v2Reclaiming = (dir: string): string =>
  `cd ${quote(dir)} && trap over=1 TERM && echo max >memory.swap.max; while [ -z "$over" ] && echo 32M >memory.reclaim; do :; done; echo 0 >memory.swap.max`

/** Without these files the kernel does not count swap, or has none. */
function writeIfThere(file: string, value: string): void {
  if (existsSync(file)) writeFileSync(file, value)
}

/** The count in a file of a group; the group may be deleted. */
function killsIn(file: string): number {
  try {
    return Number(/^oom_kill (\d+)$/m.exec(readFileSync(file, 'utf8'))?.[1] ?? 0)
  } catch {
    return 0
  }
}

const cpuTime = (percent: number): number => (percent * CPU_PERIOD_US) / 100

function v1(scope: string): Limits {
  const hasCpu = existsSync(join(ROOT, 'cpu', 'cpu.cfs_quota_us')) || existsSync(join(ROOT, 'cpu', 'cpu.shares'))
  const bases = ['memory', 'pids', ...(hasCpu ? ['cpu'] : [])].map((controller) => join(ROOT, controller, `cob-${scope}`))
  for (const base of bases) accessSync(dirname(base), constants.W_OK)
  const limiting = groups(
    bases,
    hasCpu,
    () => {
      // The service and its database are not in a group, and each of their threads has 1024. All instances together get the same weight per CPU. So they use
      // all of the CPU when nothing else runs, and the service always gets half of it.
      if (hasCpu) writeFileSync(join(bases[2]!, 'cpu.shares'), String(1024 * availableParallelism()))
    },
    ([, , cpu], { shares }) => {
      if (cpu !== undefined) writeIfThere(join(cpu, 'cpu.shares'), String(shares))
    },
    ([memory, pids, cpu], limits) => {
      writeFileSync(join(memory!, 'memory.limit_in_bytes'), String(limits.memoryBytes))
      // Memory and swap together. The kernel requires it after the limit of memory alone.
      writeIfThere(join(memory!, 'memory.memsw.limit_in_bytes'), String(limits.memoryBytes))
      writeFileSync(join(pids!, 'pids.max'), String(limits.pids))
      if (cpu === undefined || limits.cpuPercent === 0) return
      writeFileSync(join(cpu, 'cpu.cfs_period_us'), String(CPU_PERIOD_US))
      writeFileSync(join(cpu, 'cpu.cfs_quota_us'), String(cpuTime(limits.cpuPercent)))
    },
  )
  return {
    ...limiting,
    killedForMemory: (id) => killsIn(join(bases[0]!, id, 'memory.oom_control')),
    freezer: usable(() => v1Freezer(scope)),
    reclaiming: (id) => `echo 0 >${quote(join(bases[0]!, id, 'memory.force_empty'))}`,
    canReclaim: existsSync(join(ROOT, 'memory', 'memory.force_empty')),
  }
}

function usable<T>(find: () => T): T | undefined {
  try {
    return find()
  } catch {
    return undefined
  }
}

/** A group and those below it, parents first. Where groups are delegated to the service's user, programs in a session can make such groups. */
const treeOf = (dir: string): string[] => (existsSync(dir) ? [dir, ...subgroups(dir).flatMap((name) => treeOf(join(dir, name)))] : [])

/** Removes the groups of a sandbox whose service is unknown. @throws when a process is left in one */
export async function removeGroupsOf(id: string): Promise<void> {
  const parents = [ROOT, join(ROOT, 'memory'), join(ROOT, 'pids')].filter(existsSync)
  for (const base of parents.flatMap((parent) => scopesIn(parent).map((name) => join(parent, name)))) {
    if (!existsSync(join(base, id))) continue
    await free(join(base, id))
    if (subgroups(base).length === 0) removed(base)
  }
  await removeFreezersOf(id)
}

/** Removes a group and those below it. The kernel releases a group only a moment after its last process has ended. */
async function free(group: string): Promise<void> {
  for (const dir of treeOf(group).toReversed()) await until('a cgroup to be free', FREE_MS, () => removed(dir), { everyMs: 5 })
}

/** Groups below `bases`, one per controller. A base exists for as long as it has instances. */
function groups(
  bases: string[],
  hasCpu: boolean,
  prepare: () => void,
  share: (dirs: string[], share: typeof EQUAL) => void,
  limit: (dirs: string[], limits: InstanceLimits) => void,
): Omit<Limits, 'killedForMemory'> {
  const dirs = (id: string) => bases.map((base) => join(base, id))
  return {
    make(id, limits) {
      for (const base of bases) mkdirSync(base, { recursive: true })
      prepare()
      for (const dir of dirs(id)) mkdirSync(dir, { recursive: true })
      limit(dirs(id), limits)
      return dirs(id).map((dir) => join(dir, 'cgroup.procs'))
    },
    yield(id, toOthers) {
      try {
        share(dirs(id), toOthers ? YIELDING : EQUAL)
      } catch {} // Only a hint: the group may be being removed, and the start or end of an instance must not fail because of it.
    },
    members: (id) => [...new Set(dirs(id).flatMap(treeOf).flatMap(processesIn))],
    async remove(id) {
      for (const dir of dirs(id)) await free(dir)
      for (const base of bases) if (existsSync(base) && subgroups(base).length === 0) removed(base)
    },
    list: () => [...new Set(bases.flatMap(subgroups))],
    boundsMemory: true,
    sharesCpu: hasCpu,
    findings: hasCpu ? [] : [NO_CPU],
  }
}
