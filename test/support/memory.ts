// The memory of processes under test: what they had, and the most that they had since.
import { readFileSync, writeFileSync } from 'node:fs'

const SAMPLE_MS = 200
/** For clear_refs of proc(5): the highest resident set is counted anew. */
const RESET_PEAK = '5'

export interface WatchedMemory extends Disposable {
  /** How much more memory each process had at its highest than at the start, in MB. */
  growth(): number[]
}

/** Watches processes from now on. What the kernel notes of the highest point is used where we may reset it; samples are taken as well. */
export function watchMemory(pids: readonly number[]): WatchedMemory {
  const field = (pid: number, name: 'VmRSS' | 'VmHWM') =>
    Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1024
  const watched = pids.map((pid) => {
    let isReset = true
    try {
      writeFileSync(`/proc/${pid}/clear_refs`, RESET_PEAK)
    } catch {
      isReset = false // only root may, and not in every container
    }
    const before = field(pid, 'VmRSS')
    return { pid, isReset, before, most: before }
  })
  const sample = () => {
    for (const one of watched) one.most = Math.max(one.most, field(one.pid, one.isReset ? 'VmHWM' : 'VmRSS'))
  }
  const timer = setInterval(sample, SAMPLE_MS)
  return {
    growth() {
      sample()
      return watched.map(({ before, most }) => most - before)
    },
    [Symbol.dispose]: () => clearInterval(timer),
  }
}
