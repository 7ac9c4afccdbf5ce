// The contenders of bursts: the service, and three ways to start the same Chromium without it. A contender's CPU seconds are those of its programs, without the client's.
import { sleep } from '../src/base/wait.ts'
import { launchable } from './bare.ts'
import type { Bench } from './bench.ts'
import { bareLife, life, ownLaunch, type Lived } from './lives.ts'
import { say } from './say.ts'
import { startService, type Service } from './sessions.ts'
import { openMeter, tree, type Meter } from './usage.ts'

/** The default of COB_WARM_BROWSERS. */
const WARM = 1
/** The service is calm when it uses less than this, in percent of one core, for CALM_MS. The bench waits at most CALM_WITHIN_MS. */
const CALM_PERCENT = 10
const CALM_MS = 1_000
const CALM_WITHIN_MS = 60_000

export interface Contender {
  what: string
  live(): Promise<Lived>
  /** Runs `work`, and returns the CPU seconds that the contender's programs used meanwhile; undefined where the machine counts only running processes. */
  counted<T>(work: () => Promise<T>): Promise<Counted<T>>
}

interface Counted<T> {
  result: T
  cpuSeconds: number | undefined
}

/** The baselines. Goals are compared with the first one. */
export function openBaselines(bench: Bench): { all: readonly [Contender, ...Contender[]] } & AsyncDisposable {
  const scope = new AsyncDisposableStack()
  const program = scope.use(launchable())
  const baseline = (what: string, live: () => Promise<Lived>): Contender => {
    const meter = scope.use(openMeter(what.replaceAll(/\W+/g, '-')))
    return { what, live, counted: (work) => launched(meter, work) }
  }
  return {
    all: [
      baseline("Playwright's own launch", () => ownLaunch(bench, program)),
      baseline("Playwright's, headless", () => ownLaunch(bench, program, true)),
      baseline('bare Xvfb and Chromium', () => bareLife(bench)),
    ],
    [Symbol.asyncDispose]: () => scope.disposeAsync(),
  }
}

// The client launches the programs, so it is in their group, and its own CPU time is subtracted.
async function launched<T>(meter: Meter, work: () => Promise<T>): Promise<Counted<T>> {
  const before = meter.seconds([])
  const own = process.cpuUsage()
  const result = await meter.started(work)
  const { user, system } = process.cpuUsage(own)
  return { result, cpuSeconds: meter.countsEnded ? meter.seconds([]) - before - (user + system) / 1e6 : undefined }
}

export interface Ours extends Contender {
  service: Service
  /** The processes of the service and of all browsers. */
  pids(): number[]
  /** Resolves when the service is calm: spare browsers have booted, and ended ones are gone. */
  calm(): Promise<void>
}

/** Runs `work` with a new service with default settings. */
export async function withOurs(bench: Bench, work: (ours: Ours) => Promise<void>): Promise<void> {
  const { signal } = bench
  await using meter = openMeter('burst')
  await using service = await meter.started(() => startService(WARM, signal, { COB_WARM_BROWSERS_MAX: '' }))
  const pids = () => tree(service.cloud.pid())
  const used = () => meter.seconds(pids())
  const ours: Ours = {
    what: 'Cob',
    service,
    pids,
    live: () => life(bench, service),
    async counted(inner) {
      const before = used()
      const result = await inner()
      // The boots and ends that these lives caused are part of their cost.
      await ours.calm()
      return { result, cpuSeconds: meter.countsEnded ? used() - before : undefined }
    },
    async calm() {
      const until = performance.now() + CALM_WITHIN_MS
      while (performance.now() < until) {
        const [before, began] = [used(), performance.now()]
        await sleep(CALM_MS, signal)
        // Without a group, the CPU time of ended processes is lost, so the difference may be negative.
        if (Math.abs(used() - before) * 1e5 < CALM_PERCENT * (performance.now() - began)) return
      }
      say(`the service was still busy after ${CALM_WITHIN_MS} ms`)
    },
  }
  await service.warm(WARM)
  await ours.calm()
  await bench.rest()
  await work(ours)
}
