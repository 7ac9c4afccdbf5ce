// The CPU time of browsers that start and end during some work, such as those of health checks.
import { cpuSeconds } from '../../bench/usage.ts'
import type { Cloud } from './cloud.ts'
import { processesOf } from './inside.ts'

/** The interval of the samples. The last sample of a browser is at most this much older than its end. */
const LOOK_MS = 100

/** Runs `work`, and returns the CPU seconds of all new sessions. The boot of a warm browser is not included. */
export async function cpuOfNewSessions<T>(cloud: Cloud, work: () => Promise<T>): Promise<{ done: T; seconds: number }> {
  const running = async () => (await cloud.query<{ id: string }>(`select id from browsers where state = 'running'`)).map(({ id }) => id)
  const warm = await cloud.query<{ id: string }>(`select id from browsers where state = 'warm'`)
  const used = (id: string): number => {
    try {
      return cpuSeconds(processesOf(cloud, id).map(({ pid }) => pid))
    } catch {
      return 0 // the browser has just ended
    }
  }
  const old = new Set(await running())
  const booted = new Map(warm.map(({ id }) => [id, used(id)]))
  const most = new Map<string, number>()
  let isOver = false
  const watched = (async () => {
    while (!isOver) {
      for (const id of await running()) if (!old.has(id)) most.set(id, Math.max(most.get(id) ?? 0, used(id) - (booted.get(id) ?? 0)))
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS))
    }
  })()
  try {
    const done = await work()
    return { done, seconds: [...most.values()].reduce((sum, seconds) => sum + seconds, 0) }
  } finally {
    isOver = true
    await watched
  }
}
