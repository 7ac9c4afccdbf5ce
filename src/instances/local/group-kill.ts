// Kills all of a sandbox by its control group.
import { killAt, signalProcess, type ProcessName } from '../../base/processes.ts'

/** A killed process leaves within milliseconds. Its pid may be that of another one after so long. */
const AGAIN_MS = 100

/**
 * Returns a function that signals all `members` of a group and the processes that are `known`; false when the group is empty, or there are no groups. It can be called
 * again until the group is empty.
 *
 * Nothing but the group's own list is read of processes that are ending. Who reads the `stat` of one may be left to take its memory apart, which takes tens of
 * milliseconds, in which the service does nothing else. So each is signalled once in {@link AGAIN_MS}.
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
    // Killed as soon as they are listed: later, a pid may be that of a foreign process.
    const pids = members()
    for (const pid of pids.filter((one) => !signalled.has(one))) {
      killAt(pid)
      signalled.add(pid)
    }
    return pids.length > 0
  }
}
