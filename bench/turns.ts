// Two things measured in turns, so that whatever else the machine does meets both.
import type { Bench } from './bench.ts'

/** After this long of measuring, a rest. */
const STRETCH_MS = 1_000

export async function turns(
  { rest }: Bench,
  count: number,
  our: () => Promise<number>,
  their: () => Promise<number>,
): Promise<{ ours: number[]; theirs: number[] }> {
  const [ours, theirs]: [number[], number[]] = [[], []]
  let until = 0
  for (let i = 0; i < count; i++) {
    if (performance.now() > until) {
      await rest()
      until = performance.now() + STRETCH_MS
    }
    ours.push(await our())
    theirs.push(await their())
  }
  return { ours, theirs }
}
