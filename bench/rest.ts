// Waits until other programs are idle, because their work during a measurement would make Cob look slow.
import { sleep } from '../src/base/wait.ts'
import { watchOthers, type Meter } from './usage.ts'

const REST_MS = 300
/** In percent of all cores. Two cores with idle system services stay below it. */
const QUIET_PERCENT = 8

/** Returns a pause of {@link REST_MS}. It lasts longer while other programs use the machine, by at most `patienceMs` in total per run. */
export function rester(meter: Meter, patienceMs: number, signal: AbortSignal): { rest: () => Promise<void>; waitedMs: () => number } {
  let waited = 0
  const restOnce = async (): Promise<boolean> => {
    const others = watchOthers(meter)
    await sleep(REST_MS, signal)
    return (others().programs ?? 0) <= QUIET_PERCENT
  }
  return {
    async rest() {
      while (!(await restOnce()) && waited < patienceMs) waited += REST_MS
    },
    waitedMs: () => waited,
  }
}
