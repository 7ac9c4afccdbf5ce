// Memory and process limits of instances by cgroups: version 2 where delegated, version 1 where not, said plainly where neither.
import { accessSync, constants, existsSync, mkdirSync, readFileSync, readdirSync, rmdirSync, statfsSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { isRoot } from '../../base/user.ts'

export interface InstanceLimits {
  memoryBytes: number
  pids: number
}

export interface Limits {
  /** Makes the groups of an instance; the files are those that a process enters them by. */
  make(id: string, limits: InstanceLimits): string[]
  /** Removes the groups of an instance; every process in them must be gone. */
  remove(id: string): void
  /** Ids of instances that have groups. */
  list(): string[]
  /** What is not enforced here, for `cob doctor`; undefined when all is. */
  finding: string | undefined
}

const ROOT = '/sys/fs/cgroup'
/** statfs magic of a cgroup 2 mount (linux/magic.h). */
const CGROUP2_MAGIC = 0x63677270

/** Finds out what this machine offers. `scope` keeps the groups of two services on one machine apart. */
export function findLimits(scope: string): Limits {
  try {
    return statfsSync(ROOT).type === CGROUP2_MAGIC ? v2(scope) : v1(scope)
  } catch (error) {
    return { make: () => [], remove: () => {}, list: () => [], finding: `memory and process limits of instances are not enforced: ${(error as Error).message}` }
  }
}

function v2(scope: string): Limits {
  const own = join(ROOT, /^0::(.*)$/m.exec(readFileSync('/proc/self/cgroup', 'utf8'))?.[1] ?? '/')
  const base = isRoot() ? join(ROOT, `cob-${scope}`) : join(own, `cob-${scope}`)
  accessSync(isRoot() ? ROOT : own, constants.W_OK)
  mkdirSync(base, { recursive: true })
  if (!isRoot()) {
    // A delegated group may not hold processes and enabled controllers at once, so the service moves aside first.
    mkdirSync(join(own, 'cob-service'), { recursive: true })
    writeFileSync(join(own, 'cob-service', 'cgroup.procs'), String(process.pid))
    writeFileSync(join(own, 'cgroup.subtree_control'), '+memory +pids')
  } else writeFileSync(join(ROOT, 'cgroup.subtree_control'), '+memory +pids')
  writeFileSync(join(base, 'cgroup.subtree_control'), '+memory +pids')
  return groups([base], ([dir], { memoryBytes, pids }) => {
    writeFileSync(join(dir!, 'memory.max'), String(memoryBytes))
    writeFileSync(join(dir!, 'pids.max'), String(pids))
  })
}

function v1(scope: string): Limits {
  const bases = ['memory', 'pids'].map((controller) => join(ROOT, controller, `cob-${scope}`))
  for (const base of bases) {
    accessSync(dirname(base), constants.W_OK)
    mkdirSync(base, { recursive: true })
  }
  return groups(bases, ([memory, pids], limits) => {
    writeFileSync(join(memory!, 'memory.limit_in_bytes'), String(limits.memoryBytes))
    writeFileSync(join(pids!, 'pids.max'), String(limits.pids))
  })
}

function groups(bases: string[], limit: (dirs: string[], limits: InstanceLimits) => void): Limits {
  const dirs = (id: string) => bases.map((base) => join(base, id))
  return {
    make(id, limits) {
      for (const dir of dirs(id)) mkdirSync(dir, { recursive: true })
      limit(dirs(id), limits)
      return dirs(id).map((dir) => join(dir, 'cgroup.procs'))
    },
    remove(id) {
      for (const dir of dirs(id)) if (existsSync(dir)) rmdirSync(dir)
    },
    list: () => [...new Set(bases.flatMap((base) => readdirSync(base, { withFileTypes: true }).filter((entry) => entry.isDirectory()).map(({ name }) => name)))],
    finding: undefined,
  }
}
