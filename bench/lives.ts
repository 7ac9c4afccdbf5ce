// Measures the whole life of a browser for a client: create, connect, goto, delete. The baselines are Playwright's own launch, and a bare display with Chromium.
import { chromium } from 'playwright-core'
import { FILLING, launchable, startChromium, startDisplay } from './bare.ts'
import type { Bench } from './bench.ts'
import { drive, openPage } from './drive.ts'
import { row, timed, type Row } from './figures.ts'
import type { Service } from './sessions.ts'

const LAUNCH_MS = 60_000
const TOGETHER = 5

/** The milliseconds of each part of a life. */
export type Lived = Record<'create' | 'whole', number>
type Life = Lived & Record<'connect' | 'goto' | 'delete', number>

export async function life({ pages, signal }: Bench, service: Service, options: object = {}): Promise<Life> {
  signal.throwIfAborted()
  await using scope = new AsyncDisposableStack()
  const began = performance.now()
  const create = await timed(async () => scope.use(await service.create(options)))
  const connect = await timed(async () => scope.use(await drive(create.result.cdpUrl)))
  const { ms: goto } = await timed(() => connect.result.page.goto(pages.inside('small')))
  const { ms: del } = await timed(() => create.result.delete())
  return { create: create.ms, connect: connect.ms, goto, delete: del, whole: performance.now() - began }
}

/** Playwright's launch, newPage, goto and close, with Chromium's sandbox, and with a window on the bare display unless headless. */
export async function ownLaunch({ display, pages, signal }: Bench, program: { path: string; home: string }, headless = false): Promise<Lived> {
  signal.throwIfAborted()
  const began = performance.now()
  const browser = await chromium.launch({
    executablePath: program.path,
    headless,
    chromiumSandbox: true,
    handleSIGINT: false,
    handleSIGTERM: false,
    timeout: LAUNCH_MS,
    env: { PATH: process.env.PATH, LANG: 'C.UTF-8', HOME: program.home, DISPLAY: display.name },
  })
  const create = performance.now() - began
  try {
    const page = await browser.newPage()
    await page.goto(pages.local('small'))
  } finally {
    await browser.close()
  }
  return { create, whole: performance.now() - began }
}

/** A new display with Chromium: start, connect, goto, kill. */
export async function bareLife({ pages, signal }: Bench): Promise<Lived> {
  signal.throwIfAborted()
  const began = performance.now()
  let create: number
  {
    await using scope = new AsyncDisposableStack()
    const display = scope.use(await startDisplay(signal))
    const chromium = scope.use(await startChromium(display, FILLING, signal))
    create = performance.now() - began
    await openPage(chromium.cdpUrl, pages.local('small'))
  }
  return { create, whole: performance.now() - began }
}

export async function measureLives(bench: Bench, service: Service): Promise<Row[]> {
  using program = launchable()
  const lives: Life[] = []
  const launches: number[] = []
  for (let i = 0; i < bench.counts.lives; i++) {
    // The baseline runs first. Meanwhile the warm pool refills, and it must be full before the next life.
    await service.warm(1)
    await bench.rest()
    launches.push((await ownLaunch(bench, program)).whole)
    await bench.rest()
    lives.push(await life(bench, service))
  }
  const part = (name: keyof Life) => lives.map((one) => one[name])
  return [
    row('life', 'whole life from warm, one at a time', 'ms', part('whole'), { what: "Playwright's own launch", samples: launches }),
    row('life_create', '  create', 'ms', part('create')),
    row('life_connect', '  connect (Playwright)', 'ms', part('connect')),
    row('life_goto', '  goto', 'ms', part('goto')),
    row('life_delete', '  delete', 'ms', part('delete')),
  ]
}

/** Rounds of five lives at once; `service` keeps five warm browsers. */
export async function measureLivesTogether(bench: Bench, service: Service): Promise<Row[]> {
  using program = launchable()
  const lives: number[] = []
  const launches: number[] = []
  const five = <T>(work: () => Promise<T>): Promise<T[]> => Promise.all(Array.from({ length: TOGETHER }, work))
  for (let i = 0; i < bench.counts.fives; i++) {
    await service.warm(TOGETHER)
    await bench.rest()
    launches.push(...(await five(async () => (await ownLaunch(bench, program)).whole)))
    await bench.rest()
    lives.push(...(await five(async () => (await life(bench, service)).whole)))
  }
  return [row('life_five', 'whole life from warm, five at a time', 'ms', lives, { what: "Playwright's own launch, five", samples: launches })]
}
