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
  /** Processes in the groups of an instance, and in groups that it has made below them. */
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

/** Does `work` on a group; true when that worked or the group is gone, false when it is in use. */
function attempt(work: () => void): boolean {
  try {
    work()
    return true
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code !== 'EBUSY' && code !== 'ENOTEMPTY' && code !== 'ENOENT') throw error
    return code === 'ENOENT'
  }
}

const subgroups = (dir: string): string[] =>
  existsSync(dir)
    ? readdirSync(dir, { withFileTypes: true })
        .filter((entry) => entry.isDirectory())
        .map(({ name }) => name)
    : []

/** A group and those below it, parents first. Where groups are delegated to the service's user, programs in a session can make such. */
const treeOf = (dir: string): string[] => (existsSync(dir) ? [dir, ...subgroups(dir).flatMap((name) => treeOf(join(dir, name)))] : [])

function processesIn(dir: string): number[] {
  try {
    return readFileSync(join(dir, 'cgroup.procs'), 'utf8').split('\n').filter(Boolean).map(Number)
  } catch (error) {
    // The group was removed in between (ENODEV when it was open already).
    if (!['ENOENT', 'ENODEV'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error
    return []
  }
}

/** Removes the groups of a sandbox whose service is not known. @throws when a process is left in one */
export async function removeGroupsOf(id: string): Promise<void> {
  const parents = [ROOT, join(ROOT, 'memory'), join(ROOT, 'pids')].filter(existsSync)
  for (const base of parents.flatMap((parent) => subgroups(parent).flatMap((name) => (name.startsWith('cob-') ? [join(parent, name)] : [])))) {
    if (!existsSync(join(base, id))) continue
    await free(join(base, id))
    if (subgroups(base).length === 0) attempt(() => rmdirSync(base))
  }
}

/** Removes a group and those below it. The kernel lets go of one a moment after its last process has gone. */
async function free(group: string): Promise<void> {
  for (const dir of treeOf(group).toReversed()) await until('a cgroup to be free', FREE_MS, () => attempt(() => rmdirSync(dir)), { everyMs: 5 })
}

/** Groups below `bases`, one a controller. A base is there as long as it has instances. */
function groups(bases: string[], prepare: () => void, limit: (dirs: string[], limits: InstanceLimits) => void): Limits {
  const dirs = (id: string) => bases.map((base) => join(base, id))
  return {
    make(id, limits) {
      for (const base of bases) mkdirSync(base, { recursive: true })
      prepare()
      for (const dir of dirs(id)) mkdirSync(dir, { recursive: true })
      limit(dirs(id), limits)
      return dirs(id).map((dir) => join(dir, 'cgroup.procs'))
    },
    members: (id) => [...new Set(dirs(id).flatMap(treeOf).flatMap(processesIn))],
    async remove(id) {
      for (const dir of dirs(id)) await free(dir)
      for (const base of bases) if (existsSync(base) && subgroups(base).length === 0) attempt(() => rmdirSync(base))
    },
    list: () => [...new Set(bases.flatMap(subgroups))],
    finding: undefined,
  }
}
