// Repeats one measurement, or two in turns, so that other load on the machine affects both.
import type { Bench } from './bench.ts'

/** Pauses after this much measuring. */
const STRETCH_MS = 1_000

export async function turns(
  bench: Bench,
  count: number,
  our: () => Promise<number>,
  their: () => Promise<number>,
): Promise<{ ours: number[]; theirs: number[] }> {
  const theirs: number[] = []
  const ours = await again(bench, count, our, async () => void theirs.push(await their()))
  return { ours, theirs }
}

/** `after` runs after every measurement, and is not timed. */
export async function again({ rest }: Bench, count: number, our: () => Promise<number>, after?: () => Promise<void>): Promise<number[]> {
  const ours: number[] = []
  let until = 0
  for (let i = 0; i < count; i++) {
    if (performance.now() > until) {
      await rest()
      until = performance.now() + STRETCH_MS
    }
    ours.push(await our())
    await after?.()
  }
  return ours
}
