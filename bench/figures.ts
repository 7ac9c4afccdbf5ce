// Samples and their statistics: percentiles, and rows that compare Cob with a baseline.

export type Unit = 'KB' | 'ms' | 'µs' | 's' | 'MB' | 'MB/s' | 'B/s' | '/s' | '%' | ''

export interface Figures {
  n: number
  p50: number
  p95: number
  p99: number
  min: number
  max: number
  mean: number
}

export interface Row {
  id: string
  what: string
  unit: Unit
  cob: Figures
  /** The baseline's figures, if there is a baseline. */
  beside?: Figures & { what: string }
}

/** Percentiles by nearest rank, so every figure is a measured value. With few samples the p99 is the slowest one. */
export function figuresOf(samples: readonly number[]): Figures {
  if (samples.length === 0) throw new Error('no samples')
  const sorted = samples.toSorted((a, b) => a - b)
  const rank = (percent: number) => sorted[Math.max(0, Math.ceil((percent / 100) * sorted.length) - 1)]!
  return {
    n: sorted.length,
    p50: rank(50),
    p95: rank(95),
    p99: rank(99),
    min: sorted[0]!,
    max: sorted.at(-1)!,
    mean: sorted.reduce((sum, value) => sum + value, 0) / sorted.length,
  }
}

export function row(id: string, what: string, unit: Unit, cob: readonly number[], beside?: { what: string; samples: readonly number[] }): Row {
  return { id, what, unit, cob: figuresOf(cob), ...(beside && { beside: { what: beside.what, ...figuresOf(beside.samples) } }) }
}

/** Runs `work`; returns its result and its duration in milliseconds. */
export async function timed<T>(work: () => Promise<T>): Promise<{ ms: number; result: T }> {
  const began = performance.now()
  const result = await work()
  return { ms: performance.now() - began, result }
}
