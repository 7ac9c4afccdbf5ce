// What we reach for, and whether a run got there. Nothing fails by it: it is told.
import type { Row } from './figures.ts'

export interface Reach {
  what: string
  reached: string
  yes: boolean
}

export function reachOf(rows: readonly Row[]): Reach[] {
  const cob = (id: string) => find(rows, id).cob
  const beside = (id: string) => find(rows, id).beside!
  const ms = (value: number) => `${value.toFixed(value < 10 ? 2 : 1)} ms`
  const times = (value: number) => `${value.toFixed(2)} x`
  const upTo = (what: string, value: number, limit: number, show: (value: number) => string): Reach => ({ what, reached: show(value), yes: value <= limit })
  const warm = cob('warm_create')
  const faster = beside('screenshot').p50 / cob('screenshot').p50
  return [
    upTo('warm create p50 <= 20 ms', warm.p50, 20, ms),
    upTo('warm create p99 <= 3 x p50', warm.p99 / warm.p50, 3, times),
    upTo('whole life from warm p50 <= 200 ms', cob('life').p50, 200, ms),
    upTo('cold create p50 <= 1.5 x raw spawn', cob('cold_create').p50 / beside('cold_create').p50, 1.5, times),
    { what: 'screenshot p50 >= 6 x faster than ffmpeg', reached: times(faster), yes: faster >= 6 },
    upTo(
      'CDP p50 through us <= direct + 0.2 ms',
      cob('round_trip').p50 - beside('round_trip').p50,
      0.2,
      (value) => `${value < 0 ? '' : '+'}${value.toFixed(3)} ms`,
    ),
    upTo('memory <= 1.35 x bare', cob('memory').p50 / beside('memory').p50, 1.35, times),
  ]
}

function find(rows: readonly Row[], id: string): Row {
  const found = rows.find((one) => one.id === id)
  if (!found) throw new Error(`there is no row ${id}`)
  return found
}
