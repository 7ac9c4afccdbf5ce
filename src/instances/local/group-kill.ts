// Kills a whole sandbox by its control group.
import { killAt, signalProcess, type ProcessName } from '../../base/processes.ts'

/** A killed process is gone within milliseconds. After this time its pid may belong to another process. */
const AGAIN_MS = 100

/**
 * Returns a function that signals all `members` of a group and the `known` processes; it returns false when the group is empty, or there are no groups. It can
 * be called again until the group is empty.
 *
 * Of processes that are ending, only the group's own list is read. Reading the `stat` of such a process can make the reader free that process's memory: tens of
 * milliseconds in which the service does nothing else. So each process is signalled once in {@link AGAIN_MS}.
 */
export function groupKiller(members: () => number[], known: () => readonly ProcessName[]): () => boolean {
  const signalled = new Set<number>()
  let since = -Infinity
  return () => {
    if (performance.now() - since > AGAIN_MS) {
      since = performance.now()
      signalled.clear()
      for (const name of known()) signalProcess(name, 'SIGKILL')
    }
    // Killed as soon as they are listed: later, the pid may belong to a foreign process.
    const pids = members()
    for (const pid of pids.filter((one) => !signalled.has(one))) {
      killAt(pid)
      signalled.add(pid)
    }
    return pids.length > 0
  }
}
