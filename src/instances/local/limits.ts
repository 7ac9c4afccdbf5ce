// Memory and process limits of instances by cgroups: version 2 where delegated, version 1 where not, said plainly where neither.
import { accessSync, constants, existsSync, mkdirSync, readFileSync, readdirSync, rmdirSync, statfsSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { isRoot } from '../../base/user.ts'
import { until } from '../../base/wait.ts'

export interface InstanceLimits {
  memoryBytes: number
  pids: number
}

export interface Limits {
  /** Makes the groups of an instance; the files are those that a process enters them by. */
  make(id: string, limits: InstanceLimits): string[]
  /** Processes in the groups of an instance. */
  members(id: string): number[]
  /** Removes the groups of an instance; every process in them must be gone. */
  remove(id: string): Promise<void>
  /** Ids of instances that have groups. */
  list(): string[]
  /** What is not enforced here, for `cob doctor`; undefined when all is. */
  finding: string | undefined
}

const ROOT = '/sys/fs/cgroup'
const FREE_MS = 5_000
/** statfs magic of a cgroup 2 mount (linux/magic.h). */
const CGROUP2_MAGIC = 0x63677270

/** Finds out what this machine offers. `scope` keeps the groups of two services on one machine apart. */
export function findLimits(scope: string): Limits {
  try {
    return statfsSync(ROOT).type === CGROUP2_MAGIC ? v2(scope) : v1(scope)
  } catch (error) {
    return {
      make: () => [],
      members: () => [],
      remove: async () => {},
      list: () => [],
      finding: `memory and process limits of instances are not enforced: ${(error as Error).message}`,
    }
  }
}

function v2(scope: string): Limits {
  const own = join(ROOT, /^0::(.*)$/m.exec(readFileSync('/proc/self/cgroup', 'utf8'))?.[1] ?? '/')
  const parent = isRoot() ? ROOT : own
  accessSync(parent, constants.W_OK)
  if (!/memory.*pids|pids.*memory/.test(readFileSync(join(parent, 'cgroup.controllers'), 'utf8')))
    throw new Error('the memory and pids controllers are not delegated to this user')
  const base = join(parent, `cob-${scope}`)
  const prepare = () => {
    if (!isRoot()) {
      // A delegated group may not hold processes and enabled controllers at once, so the service moves aside first.
      mkdirSync(join(own, 'cob-service'), { recursive: true })
      writeFileSync(join(own, 'cob-service', 'cgroup.procs'), String(process.pid))
    }
    for (const dir of [parent, base]) writeFileSync(join(dir, 'cgroup.subtree_control'), '+memory +pids')
  }
  return groups([base], prepare, ([dir], { memoryBytes, pids }) => {
    writeFileSync(join(dir!, 'memory.max'), String(memoryBytes))
    writeFileSync(join(dir!, 'pids.max'), String(pids))
  })
}

function v1(scope: string): Limits {
  const bases = ['memory', 'pids'].map((controller) => join(ROOT, controller, `cob-${scope}`))
  for (const base of bases) accessSync(dirname(base), constants.W_OK)
  return groups(
    bases,
    () => {},
    ([memory, pids], limits) => {
      writeFileSync(join(memory!, 'memory.limit_in_bytes'), String(limits.memoryBytes))
      writeFileSync(join(pids!, 'pids.max'), String(limits.pids))
    },
  )
}

function attempt(work: () => void): boolean {
  try {
    work()
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EBUSY' && (error as NodeJS.ErrnoException).code !== 'ENOTEMPTY') throw error
    return false
  }
}

/** Groups below `bases`, one a controller. A base is there as long as it has instances. */
function groups(bases: string[], prepare: () => void, limit: (dirs: string[], limits: InstanceLimits) => void): Limits {
  const dirs = (id: string) => bases.map((base) => join(base, id))
  const instancesIn = (base: string): string[] =>
    existsSync(base)
      ? readdirSync(base, { withFileTypes: true })
          .filter((entry) => entry.isDirectory())
          .map(({ name }) => name)
      : []
  return {
    make(id, limits) {
      for (const base of bases) mkdirSync(base, { recursive: true })
      prepare()
      for (const dir of dirs(id)) mkdirSync(dir, { recursive: true })
      limit(dirs(id), limits)
      return dirs(id).map((dir) => join(dir, 'cgroup.procs'))
    },
    members: (id) =>
      dirs(id).flatMap((dir) => (existsSync(dir) ? readFileSync(join(dir, 'cgroup.procs'), 'utf8').split('\n').filter(Boolean).map(Number) : [])),
    async remove(id) {
      // The kernel lets go of a group a moment after its last process has gone.
      for (const dir of dirs(id)) await until('a cgroup to be free', FREE_MS, () => !existsSync(dir) || attempt(() => rmdirSync(dir)), { everyMs: 5 })
      for (const base of bases) if (existsSync(base) && instancesIn(base).length === 0) attempt(() => rmdirSync(base))
    },
    list: () => [...new Set(bases.flatMap(instancesIn))],
    finding: undefined,
  }
}
