// One thing measured again and again, or two in turns, so that whatever else the machine does meets both.
import type { Bench } from './bench.ts'

/** After this long of measuring, a rest. */
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

/** `after` follows every measurement and belongs to none. */
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
