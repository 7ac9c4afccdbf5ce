// Measures the cost of a session compared to a bare display and Chromium with the same page: memory, idle CPU, and the CPU of a whole life.
import { sleep } from '../src/base/wait.ts'
import { FILLING, startChromium, startDisplay } from './bare.ts'
import type { Bench } from './bench.ts'
import { openPage } from './drive.ts'
import { row, type Row } from './figures.ts'
import type { Service } from './sessions.ts'
import { cpuSeconds, memoryMb, openMeter, tree, type Meter } from './usage.ts'

/** After a cold create, the service prepares the next sandbox: a part of what a life costs. */
export const PREPARED_MS = 2_000
/** After its first answer, a browser continues to start for a while. */
const SETTLE_MS = 5_000
const BARE = 'Xvfb + Chromium'

/** Measures memory and idle CPU. Session and baseline run at the same time, so that memory shared by all Chromiums is divided equally. */
export async function measureRest({ counts, pages, signal, rest }: Bench, service: Service): Promise<Row[]> {
  const memory: [number[], number[], number[]] = [[], [], []]
  const idle: [number[], number[], number[]] = [[], [], []]
  for (let i = 0; i < counts.costs; i++) {
    await rest()
    await using scope = new AsyncDisposableStack()
    const session = scope.use(await service.create())
    const display = scope.use(await startDisplay(signal))
    const chromium = scope.use(await startChromium(display, FILLING, signal))
    await openPage(session.cdpUrl, pages.inside('rich'))
    await openPage(chromium.cdpUrl, pages.local('rich'))
    const ours = () => tree(service.pidOf(session))
    const theirs = () => [...display.pids(), ...chromium.pids()]
    const all = () => tree(service.cloud.pid())
    await sleep(SETTLE_MS, signal)
    const cpu = () => [cpuSeconds(ours()), cpuSeconds(theirs()), cpuSeconds(all())] as const
    const [before, began] = [cpu(), performance.now()]
    await sleep(counts.idleMs, signal)
    const [after, seconds] = [cpu(), (performance.now() - began) / 1000]
    const [session_, bare, whole] = after.map((value, at) => ((value - before[at]!) / seconds) * 100) as [number, number, number]
    // The session's processes are children of the service.
    for (const [at, value] of [session_, bare, whole - session_].entries()) idle[at]!.push(value)
    const [used, usedBare] = [memoryMb(ours()), memoryMb(theirs())]
    for (const [at, value] of [used, usedBare, memoryMb(all()) - used].entries()) memory[at]!.push(value)
  }
  return [
    row('memory', 'memory of a session (Pss)', 'MB', memory[0], { what: BARE, samples: memory[1] }),
    row('idle_cpu', 'idle CPU of a session', '%', idle[0], { what: BARE, samples: idle[1] }),
    row('service_memory', 'memory of the service itself', 'MB', memory[2]),
    row('service_idle_cpu', 'idle CPU of the service itself', '%', idle[2]),
  ]
}

/** CPU seconds from create to delete, cold, with the service and its Postgres. `meter` has counted them from their start. */
export async function measureCpuLife({ counts, pages, signal, rest }: Bench, service: Service, meter: Meter): Promise<Row[]> {
  const ours: number[] = []
  const theirs: number[] = []
  for (let i = 0; i < counts.cpuLives; i++) {
    await rest()
    const before = meter.seconds(tree(service.cloud.pid()))
    {
      await using session = await service.create()
      await openPage(session.cdpUrl, pages.inside('small'))
      if (!meter.countsEnded) ours.push(meter.seconds(tree(service.cloud.pid())) - before)
      await session.delete()
    }
    await sleep(PREPARED_MS, signal)
    if (meter.countsEnded) ours.push(meter.seconds([]) - before)

    await rest()
    await using bareMeter = openMeter(`bare-${i}`)
    {
      await using scope = new AsyncDisposableStack()
      const { display, chromium } = await bareMeter.started(async () => {
        const display = scope.use(await startDisplay(signal))
        return { display, chromium: scope.use(await startChromium(display, FILLING, signal)) }
      })
      await openPage(chromium.cdpUrl, pages.local('small'))
      if (!bareMeter.countsEnded) theirs.push(bareMeter.seconds([...display.pids(), ...chromium.pids()]))
    }
    if (bareMeter.countsEnded) theirs.push(bareMeter.seconds([]))
  }
  return [row('cpu_life', 'CPU: cold create, connect, goto, delete', 's', ours, { what: `${BARE}, the same`, samples: theirs })]
}
