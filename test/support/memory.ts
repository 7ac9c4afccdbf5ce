// The memory growth of processes under test: from the start of the watch to their peak.
import { readFileSync, writeFileSync } from 'node:fs'

const SAMPLE_MS = 200
/** The value for clear_refs of proc(5) that resets the peak of the resident set. */
const RESET_PEAK = '5'

export interface WatchedMemory extends Disposable {
  /** The difference between each process's peak and its start, in MB. */
  growth(): number[]
}

/** Watches processes from now on. It uses the kernel's peak value where it can reset it, and samples otherwise. */
export function watchMemory(pids: readonly number[]): WatchedMemory {
  const field = (pid: number, name: 'VmRSS' | 'VmHWM') =>
    Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1024
  const watched = pids.map((pid) => {
    let isReset = true
    try {
      writeFileSync(`/proc/${pid}/clear_refs`, RESET_PEAK)
    } catch {
      isReset = false // only root may reset it, and not in every container
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
