// Measures telemetry with nothing captured, with the default set and with everything: the CPU of an idle page, of a clicked page and of a heavy page, the latency of an
// event, and the bytes of an event in the archive.
import { sleep, until } from '../src/base/wait.ts'
import { SETTABLE_CATEGORIES } from '../src/agent/telemetry/contract.ts'
import type { Bench } from './bench.ts'
import { drive, openPage } from './drive.ts'
import { row, type Row } from './figures.ts'
import { HEAVY_REQUESTS } from './heavy.ts'
import type { Service, Session } from './sessions.ts'
import { cpuSeconds, tree } from './usage.ts'

const on = (...names: string[]) => Object.fromEntries(names.map((name) => [name, { enabled: true }]))
const MODES = {
  off: {},
  default: { telemetry: { enabled: true } },
  most: { telemetry: { enabled: true, browser: on(...SETTABLE_CATEGORIES.filter((name) => name !== 'screenshot')) } },
  all: { telemetry: { enabled: true, browser: on(...SETTABLE_CATEGORIES) } },
} as const
type Mode = keyof typeof MODES
const MODE_NAMES = Object.keys(MODES) as Mode[]
const OFF = 'telemetry off'
const HEAVY_MS = 60_000
/** A page's work, and the telemetry about it, continues for a while. */
const SETTLE_MS = 2_000
const STORED_MS = 10_000
/** The shortest interval between screenshots of telemetry. Each click triggers one. */
const CLICK_MS = 2_000
/** A place on the page that fills the screen with content for large pictures. A click there does nothing. */
const CLICKED = { x: 200, y: 40 }

const each = <T>(make: (mode: Mode) => T): Record<Mode, T> => Object.fromEntries(MODE_NAMES.map((mode) => [mode, make(mode)])) as Record<Mode, T>

export async function measureTelemetry(bench: Bench, service: Service): Promise<Row[]> {
  const { counts, pages, signal, rest } = bench
  await using scope = new AsyncDisposableStack()
  const sessions = {} as Record<Mode, Session>
  for (const mode of MODE_NAMES) sessions[mode] = scope.use(await service.create(MODES[mode]))
  const cpu = each((mode) => () => cpuSeconds(tree(service.pidOf(sessions[mode]))))

  // Measure all sessions at the same time, so that other programs disturb them equally.
  for (const { cdpUrl } of Object.values(sessions)) await openPage(cdpUrl, pages.inside('rich'))
  await sleep(SETTLE_MS, signal)
  await rest()
  const idle = each(() => [] as number[])
  for (let i = 0; i < counts.costs; i++) {
    const [before, began] = [each((mode) => cpu[mode]()), performance.now()]
    await sleep(counts.idleMs, signal)
    const seconds = (performance.now() - began) / 1000
    for (const mode of MODE_NAMES) idle[mode].push(((cpu[mode]() - before[mode]) / seconds) * 100)
  }

  const driven = {} as Record<Mode, Awaited<ReturnType<typeof drive>>>
  for (const mode of MODE_NAMES) driven[mode] = scope.use(await drive(sessions[mode].cdpUrl))
  // Measure all at the same time again; the clients cost each session the same.
  await rest()
  const clicked = each(() => [] as number[])
  for (let i = 0; i < counts.costs; i++) {
    const [before, began] = [each((mode) => cpu[mode]()), performance.now()]
    while (performance.now() - began < counts.idleMs) {
      await Promise.all(MODE_NAMES.map((mode) => driven[mode].page.mouse.click(CLICKED.x, CLICKED.y)))
      await sleep(CLICK_MS, signal)
    }
    const seconds = (performance.now() - began) / 1000
    for (const mode of MODE_NAMES) clicked[mode].push(((cpu[mode]() - before[mode]) / seconds) * 100)
  }
  await picturesOf(service, sessions.all)

  // Measure the sessions in turns.
  const heavy = each(() => [] as number[])
  const service_ = each(() => [] as number[])
  // The service's own CPU time: that of its process tree, minus that of the sessions in it.
  const own = () => cpuSeconds(tree(service.cloud.pid())) - MODE_NAMES.reduce((sum, mode) => sum + cpu[mode](), 0)
  for (let i = 0; i < counts.heavies; i++)
    for (const mode of MODE_NAMES) {
      await rest()
      const before = [cpu[mode](), own()] as const
      await driven[mode].page.goto(pages.inside('heavy'))
      await driven[mode].page.waitForFunction('window.done === true', undefined, { timeout: HEAVY_MS })
      await sleep(SETTLE_MS, signal)
      heavy[mode].push(cpu[mode]() - before[0])
      service_[mode].push(own() - before[1])
    }

  const latency = await latencies(bench, service, sessions.most, driven.most.page)
  const perEvent = await bytesPerEvent(service, sessions.most)
  const beside = (samples: readonly number[]) => ({ what: OFF, samples })
  const names: Record<Exclude<Mode, 'off'>, string> = { default: 'default set', most: 'all but screenshots', all: 'everything' }
  return [
    ...(['default', 'most', 'all'] as const).flatMap((mode) => [
      row(`telemetry_idle_${mode}`, `telemetry, ${names[mode]}: CPU of an idle page`, '%', idle[mode], beside(idle.off)),
      row(`telemetry_heavy_${mode}`, `telemetry, ${names[mode]}: CPU of a page with ${HEAVY_REQUESTS} requests`, 's', heavy[mode], beside(heavy.off)),
      row(`telemetry_service_${mode}`, `telemetry, ${names[mode]}: CPU of the service meanwhile`, 's', service_[mode], beside(service_.off)),
    ]),
    row('telemetry_clicked_most', `telemetry, ${names.most}: CPU of a page with a click every 2 s`, '%', clicked.most, beside(clicked.off)),
    row('telemetry_clicked_all', `telemetry, ${names.all}: the same, with a picture every 2 s`, '%', clicked.all, { what: names.most, samples: clicked.most }),
    row('telemetry_latency', 'telemetry: a console line until it is read', 'ms', latency),
    row('telemetry_bytes', 'telemetry: bytes of an event in the archive', '', [perEvent]),
  ]
}

/** The time from a console line until a reader of the stream has received it. */
async function latencies({ counts, signal }: Bench, service: Service, { id }: Session, page: Awaited<ReturnType<typeof drive>>['page']): Promise<number[]> {
  const stop = new AbortController()
  const response = await service.cloud.fetch(`/browsers/${id}/telemetry/stream?type=console_log`, { signal: AbortSignal.any([signal, stop.signal]) })
  const ms: number[] = []
  const reading = (async () => {
    let rest = ''
    const decoder = new TextDecoder()
    for await (const chunk of response.body!) {
      const now = performance.timeOrigin + performance.now()
      rest += decoder.decode(chunk as Uint8Array, { stream: true })
      for (const [, at] of rest.matchAll(/"text":"said at ([\d.]+)/g)) ms.push(now - Number(at))
      rest = rest.slice(rest.lastIndexOf('\n') + 1)
    }
  })().catch(() => {})
  for (let i = 0; i < counts.lines; i++) {
    await page.evaluate(`console.log('said at ' + (performance.timeOrigin + performance.now()))`)
    await sleep(20, signal)
  }
  await until('the lines to be read', STORED_MS, () => ms.length >= counts.lines)
  stop.abort()
  await reading
  return ms
}

/** Checks that screenshots were taken, so that their cost was measured. @throws when there are none */
async function picturesOf({ cloud }: Service, { id }: Session): Promise<void> {
  await until('pictures in the archive', STORED_MS, async () => {
    const answer = await cloud.fetch(`/browsers/${id}/telemetry/events?since=1h&limit=1&type=monitor_screenshot`)
    return ((await answer.json()) as unknown[]).length > 0
  })
}

async function bytesPerEvent({ cloud }: Service, { id }: Session): Promise<number> {
  await sleep(SETTLE_MS)
  const [sum] = await cloud.query<{ bytes: string; events: string }>(
    `select sum(bytes)::text as bytes, sum(events)::text as events from telemetry_segments where session_id = $1`,
    [id],
  )
  return Number(sum!.bytes) / Number(sum!.events)
}
