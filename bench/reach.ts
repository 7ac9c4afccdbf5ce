// The performance goals, and whether a run reached them. A missed goal is reported, but nothing fails.
import type { Row } from './figures.ts'

export interface Reach {
  what: string
  reached: string
  yes: boolean
}

/** The goals for which these rows have figures. */
export function reachOf(rows: readonly Row[]): Reach[] {
  const reaches: Reach[] = []
  const find = (id: string) => rows.find((one) => one.id === id)
  const upTo = (id: string, what: string, limit: number, valueOf: (row: Row) => number, show: (value: number) => string) => {
    const row = find(id)
    if (!row) return
    const value = valueOf(row)
    reaches.push({ what, reached: show(value), yes: value <= limit })
  }
  const faster = (id: string, what: string, least: number) => {
    const row = find(id)
    if (!row) return
    const value = row.beside!.p50 / row.cob.p50
    reaches.push({ what: `${what} >= ${least} x faster`, reached: times(value), yes: value >= least })
  }
  const p50 = ({ cob }: Row) => cob.p50
  const p95 = ({ cob }: Row) => cob.p95
  const ratio = ({ cob, beside }: Row) => cob.p50 / beside!.p50

  upTo('warm_create', 'warm create p50 <= 20 ms', 20, p50, ms)
  upTo('warm_create', 'warm create p99 <= 3 x p50', 3, ({ cob }) => cob.p99 / cob.p50, times)
  upTo('life', 'whole life from warm p50 <= 200 ms', 200, p50, ms)
  upTo('cold_create', 'cold create p50 <= 1.5 x raw spawn', 1.5, ratio, times)
  upTo(
    'round_trip',
    'CDP p50 through us <= direct + 0.05 ms',
    0.05,
    ({ cob, beside }) => cob.p50 - beside!.p50,
    (value) => `${value < 0 ? '' : '+'}${value.toFixed(3)} ms`,
  )
  upTo('memory', 'memory <= 1.35 x bare', 1.35, ratio, times)
  faster('screenshot', 'changed screenshot p50 than ffmpeg', 10)
  upTo('screenshot_region', 'screenshot of a region p50 <= 8 ms', 8, p50, ms)
  upTo('screenshot_still', 'unchanged screenshot p50 <= 5 ms', 5, p50, ms)
  upTo(
    'exec',
    'exec p50 <= a local spawn + 5 ms',
    5,
    ({ cob, beside }) => cob.p50 - beside!.p50,
    (value) => `${value < 0 ? '' : '+'}${value.toFixed(2)} ms`,
  )
  upTo('click', 'warm click p50 <= 3 ms', 3000, p50, (value) => ms(value / 1000))
  upTo('playwright', 'playwright/execute p50 <= 3 ms', 3, p50, ms)
  upTo('record_still', 'recording a still page <= 1/10 of ffmpeg -f x11grab', 0.1, ratio, times)
  upTo('record_moving', 'recording a moving page <= ffmpeg -f x11grab', 1, ratio, times)
  upTo('replay_stop', `${find('replay_stop')?.what} p50 <= 300 ms (reached for after ten minutes)`, 300, p50, ms)
  upTo('view_click', 'live view: click until seen p50 <= 100 ms', 100, p50, ms)
  upTo('view_still', 'live view of a still page <= 100 B/s', 100, p50, (value) => `${value.toFixed(0)} B/s`)
  for (const id of ['wake_call', 'wake_command']) {
    const what = find(id)?.what
    upTo(id, `${what} p50 <= 20 ms`, 20, p50, ms)
    upTo(id, `${what} p99 <= 50 ms`, 50, ({ cob }) => cob.p99, ms)
  }
  upTo('asleep_cpu', 'idle CPU of what sleeps is 0', 0, p50, (value) => `${value.toFixed(1)} %`)
  upTo('asleep_memory', 'memory of a session that sleeps <= 0.4 x awake (with swap)', 0.4, ratio, times)
  upTo('invocation_warm', 'warm invocation p50 <= 20 ms', 20, p50, ms)
  upTo('invocation_row', 'warm invocations without a pause p50 <= 20 ms', 20, p50, ms)
  upTo('invocation_cold', 'cold invocation p50 <= 1.5 x importing the app', 1.5, ratio, times)
  upTo('lean_cold', "cold create of a lean session p50 <= 0.45 x a bare headful Chromium's", 0.45, ratio, times)
  upTo('lean_cpu', "CPU of a lean life <= 0.35 x a full one's", 0.35, ratio, times)
  upTo('lean_memory', 'memory of a lean session with a page <= 190 MB', 190, p50, (value) => `${value.toFixed(0)} MB`)
  upTo('lean_row', "lean lives without pause p95 <= 0.8 x Playwright's own headless launch", 0.8, ({ cob, beside }) => cob.p95 / beside!.p95, times)
  upTo('lean_five', 'five lean lives at once p50 <= 900 ms', 900, p50, ms)
  upTo('lean_five', 'five lean lives at once p95 <= 1200 ms', 1200, p95, ms)
  upTo('burst_row', "lives without pause p50 <= 0.8 x Playwright's own launch", 0.8, ratio, times)
  upTo('burst_row', "lives without pause p95 <= 0.8 x Playwright's own launch", 0.8, ({ cob, beside }) => cob.p95 / beside!.p95, times)
  upTo('burst_paced_create', 'create after a pause of a boot p50 <= 10 ms', 10, p50, ms)
  upTo('burst_five', 'five lives at once p50 <= 1600 ms', 1600, p50, ms)
  upTo('burst_five', 'five lives at once p95 <= 2000 ms', 2000, p95, ms)
  upTo('burst_learned', 'five lives at once, demand learned, p50 <= 600 ms', 600, p50, ms)
  upTo('profile_5', 'create with a profile of 5 MB, seen, p50 <= 150 ms', 150, p50, ms)
  upTo('profile_50', 'create with a profile of 50 MB, seen, p50 <= 500 ms', 500, p50, ms)
  upTo('proxy_switch', 'another proxy p50 <= 50 ms', 50, p50, ms)
  for (const [id, what] of [
    ['pool', 'acquire of an idle browser'],
    ['pool_dressed', 'acquire of an idle browser with profile, extension, proxy'],
  ] as const) {
    upTo(id, `${what} p50 <= 10 ms`, 10, p50, ms)
    upTo(id, `${what} p99 <= 30 ms`, 30, ({ cob }) => cob.p99, ms)
  }
  const added = ({ cob, beside }: Row) => cob.p50 - beside!.p50
  upTo('telemetry_idle_default', 'telemetry, default set: an idle page costs <= 1 % of a core more', 1, added, (value) => `${value.toFixed(1)} %`)
  upTo('telemetry_heavy_default', 'telemetry, default set: a heavy page costs <= 1.05 x', 1.05, ratio, times)
  upTo('many_creates', `${find('many_creates')?.what} p99 <= 50 ms`, 50, ({ cob }) => cob.p99, ms)
  for (const { id, what } of rows.filter((one) => one.beside && /^many_(get|list|click|cdp)_cpu_/.test(one.id)))
    upTo(id, `${what} <= 1.2 x that of 10`, 1.2, ratio, times)
  upTo('round_trip_tls', 'CDP p50 through an agent reached by TLS <= direct + 0.3 ms', 0.3, added, (value) => `${value < 0 ? '' : '+'}${value.toFixed(3)} ms`)
  for (const form of ['full', 'lean', 'asleep']) {
    upTo(`density_${form}_create`, `create beside as many sessions as fit (${form}) p95 <= 2000 ms`, 2000, p95, ms)
    upTo(`density_${form}_lost`, `sessions lost of as many as fit (${form}): 0`, 0, p50, (value) => String(value))
  }
  faster('move_event', 'pointer move in a batch p50 than xdotool', 100)
  return reaches
}

const ms = (value: number): string => `${value.toFixed(value < 10 ? 2 : 1)} ms`
const times = (value: number): string => `${value.toFixed(value < 100 ? 2 : 0)} x`
