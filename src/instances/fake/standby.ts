// Sleeping fake instances: one mark per instance, which all services of this process see. Their agents answer nevertheless.
import { setImmediate } from 'node:timers/promises'
import type { Standby } from '../driver.ts'

const usedAt = new Map<string, number>()
const asleep = new Set<string>()

/** The fake instances that sleep now. */
export const sleepers: ReadonlySet<string> = asleep

export const fakeStandby: Standby = {
  async sleep(id, unusedMs, signal) {
    const before = usedAt.get(id)
    await setImmediate()
    if (signal.aborted || usedAt.get(id) !== before || performance.now() - (before ?? -Infinity) < unusedMs) return false
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

/** The instance has ended. */
export function forget(id: string): void {
  usedAt.delete(id)
  asleep.delete(id)
}
