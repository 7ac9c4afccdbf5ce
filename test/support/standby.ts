// Observes sessions in standby from outside, through the kernel's counters of their processes.
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { dataPaths } from '../../src/base/paths.ts'
import { until } from '../../src/base/wait.ts'
import type { Cloud } from './cloud.ts'
import { agentOf, processesOf } from './inside.ts'

/** The limit for an unused session to sleep: the time of the service's setting, and the time to move its processes into a cgroup. */
const ASLEEP_MS = 15_000

type Seen = Pick<Cloud, 'dataDir'>

/** Whether the kernel has stopped a session's processes. */
export function isAsleep({ dataDir }: Seen, id: string): boolean {
  const scope = `cob-${readFileSync(dataPaths(dataDir).hostId, 'utf8').trim()}`
  const v1 = join('/sys/fs/cgroup/freezer', scope, id, 'freezer.state')
  if (existsSync(v1)) return readFileSync(v1, 'utf8').trim() === 'FROZEN'
  const v2 = join('/sys/fs/cgroup', scope, id, 'standby', 'cgroup.events')
  return existsSync(v2) && readFileSync(v2, 'utf8').includes('frozen 1')
}

/** Resolves when a session sleeps. */
export async function asleep(cloud: Seen, id: string): Promise<void> {
  await until('the session to sleep', ASLEEP_MS, () => isAsleep(cloud, id), { everyMs: 20 })
}

/** The processes of a session that are stopped in standby: all except the agent and its parents. */
export function stoppable(cloud: Cloud, id: string): number[] {
  const agent = agentOf(cloud, id)
  const all = processesOf(cloud, id)
  const parents = new Map(all.map(({ pid, status }) => [pid, Number(/^PPid:\s*(\d+)/m.exec(status)![1])]))
  const isAbove = (pid: number, below: number): boolean => below === pid || (parents.has(below) && isAbove(pid, parents.get(below)!))
  return all.map(({ pid }) => pid).filter((pid) => !isAbove(pid, agent))
}

/** The CPU time of processes so far, in clock ticks, and how many of them still run. */
export function cpuTicks(pids: readonly number[]): { ticks: number; running: number } {
  const times = pids.flatMap((pid) => {
    const file = `/proc/${pid}/stat`
    if (!existsSync(file)) return []
    const fields = readFileSync(file, 'utf8').split(') ')[1]!.split(' ')
    return [Number(fields[11]) + Number(fields[12])]
  })
  return { ticks: times.reduce((sum, one) => sum + one, 0), running: times.length }
}
