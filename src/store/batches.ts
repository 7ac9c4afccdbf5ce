// Changing many rows in statements of bounded size, so that no statement takes long.

/** Calls `remove` until it removes (or changes) fewer than `limit`, or the signal aborts. Returns how many there were together. */
export async function inBatches(limit: number, signal: AbortSignal, remove: (limit: number) => Promise<number>): Promise<number> {
  let sum = 0
  while (!signal.aborted) {
    const removed = await remove(limit)
    sum += removed
    if (removed < limit) break
  }
  return sum
}
