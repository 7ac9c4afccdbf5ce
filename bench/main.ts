// The benchmark: compares Cob to bare Chromium, in one run on one machine. It reports slow results, but they never make it fail.
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { PACKAGE_DIR } from '../src/base/paths.ts'
import { startChromium, startDisplay } from './bare.ts'
import { measureApps } from './apps.ts'
import type { Bench } from './bench.ts'
import { measureBurst } from './burst.ts'
import { measureCallers } from './callers.ts'
import { firstAnswer } from './cdp.ts'
import { measureDressed } from './dressed.ts'
import { measureCold } from './cold.ts'
import { measureCpuLife, measureRest } from './costs.ts'
import { countsOf } from './counts.ts'
import { measureDensity } from './density.ts'
import type { Row } from './figures.ts'
import { measureInput } from './input.ts'
import { measureInside } from './inside.ts'
import { LEAN, measureLean, measureLeanLives } from './lean.ts'
import { measureLink, measureRemoteLink } from './link.ts'
import { measureLive } from './live.ts'
import { measureLives, measureLivesTogether } from './lives.ts'
import { servePages } from './pages.ts'
import { reachOf } from './reach.ts'
import { rester } from './rest.ts'
import { machine, table, writeJson, type Report } from './report.ts'
import { say } from './say.ts'
import { measurePools, measurePoolsCold } from './pools.ts'
import { measureReplicas } from './replicas.ts'
import { measureScreenshots } from './screenshots.ts'
import { startService, type Service } from './sessions.ts'
import { measureStandby, STANDBY } from './standby.ts'
import { measureTelemetry } from './telemetry.ts'
import { measureTyping } from './typing.ts'
import { openMeter, watchOthers } from './usage.ts'
import { measureWarm } from './warm.ts'
import { measureRecordings } from './watch.ts'

/** Ends a run that hangs. Far longer than any run takes. */
const RUN_MS = 90 * 60_000
/** How long a run may wait in total for other programs to be idle. BENCH_PATIENCE_SECONDS overrides it. */
const PATIENCE_SECONDS = 60

const SECTIONS = [
  'start',
  'costs',
  'lean',
  'link',
  'computer',
  'inside',
  'watch',
  'apps',
  'warm',
  'dressed',
  'pools',
  'fives',
  'burst',
  'standby',
  'telemetry',
  'replicas',
  'density',
] as const
type Section = (typeof SECTIONS)[number]
/** It fills the memory of the machine, so it is measured only when --only names it. */
const ONLY_NAMED: Section = 'density'

const { values, positionals } = parseArgs({ allowPositionals: true, options: { only: { type: 'string', multiple: true } } })
const unknown = values.only?.find((name) => !SECTIONS.some((section) => section === name))
if (unknown !== undefined) {
  say(`--only is one of ${SECTIONS.join(', ')}, not "${unknown}"`)
  process.exit(2)
}
/** Whether one of these sections is measured. Without --only, all but one are. */
const wanted = (...sections: Section[]): boolean => sections.some((section) => (values.only ? values.only.includes(section) : section !== ONLY_NAMED))

const file = resolve(positionals[0] ?? join(PACKAGE_DIR, values.only ? 'bench-results/part.json' : 'bench-results/latest.json'))
const stop = new AbortController()
for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
  process.on(name, () => {
    if (stop.signal.aborted) process.exit(130)
    say('ending all started processes')
    stop.abort(new Error(`ended by ${name}`))
  })

const rows: Row[] = []
const step = async (section: Section, what: string, measure: () => Promise<Row[]>): Promise<void> => {
  if (!wanted(section)) return
  say(what)
  rows.push(...(await measure()))
}
/** Runs `work` with a service that keeps `warm` browsers ready. */
async function withService(warm: number, signal: AbortSignal, work: (service: Service) => Promise<void>): Promise<void> {
  await using service = await startService(warm, signal)
  await work(service)
}

async function run(): Promise<Report> {
  await using meter = openMeter('run')
  const others = watchOthers(meter)
  const began = performance.now()
  const signal = AbortSignal.any([stop.signal, AbortSignal.timeout(RUN_MS)])
  const { rest, waitedMs } = rester(meter, Number(process.env.BENCH_PATIENCE_SECONDS ?? PATIENCE_SECONDS) * 1000, signal)
  const version = await meter.started(() => measure(signal, rest))
  return {
    at: new Date().toISOString(),
    quick: process.env.BENCH_QUICK === '1',
    seconds: (performance.now() - began) / 1000,
    others: others(),
    waitedSeconds: waitedMs() / 1000,
    machine: machine(version),
    rows,
    reach: reachOf(rows),
  }
}

/** Makes the measurements and adds their rows. Resolves with Chromium's version. */
async function measure(signal: AbortSignal, rest: () => Promise<void>): Promise<string> {
  await using scope = new AsyncDisposableStack()
  const display = scope.use(await startDisplay(signal))
  const pages = scope.use(await servePages())
  const bench: Bench = { counts: countsOf(process.env), display, pages, signal, rest }
  // This call reads Chromium's files from disk, so that the first measurement does not.
  const version = await chromiumVersion(bench)

  if (wanted('start', 'costs', 'link', 'computer', 'inside', 'watch', 'apps')) {
    await using meter = openMeter('service')
    await using service = await meter.started(() => startService(0, signal))
    await step('start', 'cold starts', () => measureCold(bench, service))
    await step('costs', 'CPU of whole lives', () => measureCpuLife(bench, service, meter))
    await step('costs', 'memory and idle CPU', () => measureRest(bench, service))
    await step('link', 'connections, round trips, pages', () => measureLink(bench, service))
    await step('computer', 'screenshots', () => measureScreenshots(bench, service))
    await step('computer', 'pointer and keys', () => measureInput(bench, service))
    await step('computer', 'typing', () => measureTyping(bench, service))
    await step('computer', 'callers at once', () => measureCallers(bench, service))
    await step('inside', 'programs, Playwright, files', () => measureInside(bench, service))
    await step('watch', 'recordings', () => measureRecordings(bench, service))
    await step('watch', 'live view', () => measureLive(bench, service))
    await step('apps', 'deploys and calls of apps', () => measureApps(bench, service))
  }
  if (wanted('lean')) {
    await using meter = openMeter('lean')
    await using service = await meter.started(() => startService(0, signal, LEAN))
    await step('lean', 'lean sessions', () => measureLean(bench, service, meter))
  }
  await step('lean', 'lean lives without a service that has learned', () => measureLeanLives(bench))
  if (wanted('warm'))
    await withService(1, signal, async (service) => {
      await step('warm', 'warm creates', () => measureWarm(bench, service))
      await step('warm', 'lives, one at a time', () => measureLives(bench, service))
    })
  if (wanted('dressed'))
    await withService(1, signal, (service) => step('dressed', 'creates with a profile, an extension, a proxy', () => measureDressed(bench, service)))
  if (wanted('pools')) {
    await withService(1, signal, (service) => step('pools', 'acquires and releases', () => measurePools(bench, service)))
    await withService(0, signal, (service) => step('pools', 'cold creates', () => measurePoolsCold(bench, service)))
  }
  if (wanted('fives')) await withService(5, signal, (service) => step('fives', 'lives, five at a time', () => measureLivesTogether(bench, service)))
  if (wanted('standby')) {
    await using service = await startService(0, signal, STANDBY)
    await step('standby', 'sessions that sleep', () => measureStandby(bench, service))
  }
  if (wanted('telemetry')) await withService(0, signal, (service) => step('telemetry', 'telemetry', () => measureTelemetry(bench, service)))
  await step('replicas', 'many sessions over three replicas', () => measureReplicas(bench))
  if (wanted('replicas')) {
    await using service = await startService(0, signal, { COB_DRIVER: 'local-tls' })
    await step('replicas', 'an agent reached by TLS', () => measureRemoteLink(bench, service))
  }
  await step('burst', 'bursts', () => measureBurst(bench, say))
  await step('density', 'as many sessions as the machine holds', () => measureDensity(bench))

  return version
}

async function chromiumVersion({ display, signal }: Bench): Promise<string> {
  await using chromium = await startChromium(display, [], signal)
  using cdp = await firstAnswer(chromium.cdpUrl, signal)
  return (await cdp.version()).replace(/^\w+\//, '')
}

try {
  const report = await run()
  writeJson(file, report)
  process.stdout.write(`\n${table(report)}\n`)
  say(`written to ${file}`)
} catch (error) {
  say(stop.signal.aborted ? (stop.signal.reason as Error).message : ((error as Error).stack ?? String(error)))
  process.exitCode = 1
}
