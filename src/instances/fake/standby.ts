// Fake instances that sleep: a mark for each, which all services of this process see. Their agents answer all the same.
import type { Standby } from '../driver.ts'

const usedAt = new Map<string, number>()
const asleep = new Set<string>()

/** The fake instances that sleep now. */
export const sleepers: ReadonlySet<string> = asleep

export const fakeStandby: Standby = {
  async sleep(id, unusedMs, signal) {
    if (signal.aborted || performance.now() - (usedAt.get(id) ?? -Infinity) < unusedMs) return false
    asleep.add(id)
    return true
  },
  wake(id) {
    usedAt.set(id, performance.now())
    asleep.delete(id)
  },
  isAsleep: (id) => asleep.has(id),
  reclaim: async () => {},
}
