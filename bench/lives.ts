// The whole life of a browser for a client: create, connect, goto, delete. The baseline is Playwright's own launch.
import { chromium } from 'playwright-core'
import { launchable } from './bare.ts'
import type { Bench } from './bench.ts'
import { drive } from './drive.ts'
import { row, timed, type Row } from './figures.ts'
import type { Service } from './sessions.ts'

const LAUNCH_MS = 60_000
const TOGETHER = 5

type Life = Record<'create' | 'connect' | 'goto' | 'delete' | 'whole', number>

async function life({ pages, signal }: Bench, service: Service): Promise<Life> {
  signal.throwIfAborted()
  await using scope = new AsyncDisposableStack()
  const began = performance.now()
  const create = await timed(async () => scope.use(await service.create()))
  const connect = await timed(async () => scope.use(await drive(create.result.cdpUrl)))
  const { ms: goto } = await timed(() => connect.result.page.goto(pages.inside('small')))
  const { ms: del } = await timed(() => create.result.delete())
  return { create: create.ms, connect: connect.ms, goto, delete: del, whole: performance.now() - began }
}

/** launch, newPage, goto, close: a window on the bare display, Chromium's sandbox on. */
async function ownLaunch({ display, pages, signal }: Bench, program: { path: string; home: string }): Promise<number> {
  signal.throwIfAborted()
  const { ms } = await timed(async () => {
    const browser = await chromium.launch({
      executablePath: program.path,
      headless: false,
      chromiumSandbox: true,
      handleSIGINT: false,
      handleSIGTERM: false,
      timeout: LAUNCH_MS,
      env: { PATH: process.env.PATH, LANG: 'C.UTF-8', HOME: program.home, DISPLAY: display.name },
    })
    try {
      const page = await browser.newPage()
      await page.goto(pages.local('small'))
    } finally {
      await browser.close()
    }
  })
  return ms
}

export async function measureLives(bench: Bench, service: Service): Promise<Row[]> {
  using program = launchable()
  const lives: Life[] = []
  const launches: number[] = []
  for (let i = 0; i < bench.counts.lives; i++) {
    // The baseline runs first: meanwhile the warm pool refills, and it must be full before the next life.
    await service.warm(1)
    await bench.rest()
    launches.push(await ownLaunch(bench, program))
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

/** Five at a time; `service` keeps five warm browsers. */
export async function measureLivesTogether(bench: Bench, service: Service): Promise<Row[]> {
  using program = launchable()
  const lives: number[] = []
  const launches: number[] = []
  const five = <T>(work: () => Promise<T>): Promise<T[]> => Promise.all(Array.from({ length: TOGETHER }, work))
  for (let i = 0; i < bench.counts.fives; i++) {
    await service.warm(TOGETHER)
    await bench.rest()
    launches.push(...(await five(() => ownLaunch(bench, program))))
    await bench.rest()
    lives.push(...(await five(async () => (await life(bench, service)).whole)))
  }
  return [row('life_five', 'whole life from warm, five at a time', 'ms', lives, { what: "Playwright's own launch, five", samples: launches })]
}
