// Resting until the machine is ours: what others do in the middle of a measurement would be taken for our slowness.
import { sleep } from '../src/base/wait.ts'
import { watchOthers, type Meter } from './usage.ts'

const REST_MS = 300
/** Of all cores. Two cores idling among system services stay below it. */
const QUIET_PERCENT = 8

/** Makes a rest of {@link REST_MS} that goes on while other programs use the machine: together up to `patienceMs` more in one run. */
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
