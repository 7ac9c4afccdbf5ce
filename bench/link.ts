// Connecting to a running browser, sending a request, opening a page: directly and through Cob, alternating.
import { FILLING, startChromium } from './bare.ts'
import type { Bench } from './bench.ts'
import { firstAnswer } from './cdp.ts'
import { drive } from './drive.ts'
import { row, timed, type Row } from './figures.ts'
import type { Service } from './sessions.ts'
import { turns } from './turns.ts'

export async function measureLink(bench: Bench, service: Service): Promise<Row[]> {
  const { counts, display, pages, signal } = bench
  await using scope = new AsyncDisposableStack()
  const session = scope.use(await service.create())
  const bare = scope.use(await startChromium(display, FILLING, signal))

  const connect = async (url: string) => {
    const { ms, result } = await timed(() => firstAnswer(url, signal))
    result[Symbol.dispose]()
    return ms
  }
  const connects = await turns(
    bench,
    counts.connects,
    () => connect(session.cdpUrl),
    () => connect(bare.cdpUrl),
  )

  const [ourCdp, bareCdp] = [scope.use(await firstAnswer(session.cdpUrl, signal)), scope.use(await firstAnswer(bare.cdpUrl, signal))]
  const ask = async (cdp: typeof ourCdp) => (await timed(() => cdp.version())).ms
  // The first calls of a process run code that is not compiled yet, Cob's and the bench's own.
  await turns(
    bench,
    100,
    () => ask(ourCdp),
    () => ask(bareCdp),
  )
  const asks = await turns(
    bench,
    counts.roundTrips,
    () => ask(ourCdp),
    () => ask(bareCdp),
  )

  const playwright = async (url: string) => {
    const { ms, result } = await timed(() => drive(url))
    await result[Symbol.asyncDispose]()
    return ms
  }
  const drives = await turns(
    bench,
    counts.gotos,
    () => playwright(session.cdpUrl),
    () => playwright(bare.cdpUrl),
  )

  const [ours, theirs] = [scope.use(await drive(session.cdpUrl)), scope.use(await drive(bare.cdpUrl))]
  const open = async ({ page }: typeof ours, address: string) => (await timed(() => page.goto(address))).ms
  const gotos = await turns(
    bench,
    counts.gotos,
    () => open(ours, pages.inside('small')),
    () => open(theirs, pages.local('small')),
  )

  return [
    row('connect', 'connect (WebSocket + getVersion)', 'ms', connects.ours, { what: 'directly', samples: connects.theirs }),
    row('connect_playwright', 'connect (Playwright connectOverCDP)', 'ms', drives.ours, { what: 'directly', samples: drives.theirs }),
    row('goto', 'goto, local page', 'ms', gotos.ours, { what: 'bare Chromium', samples: gotos.theirs }),
    row('round_trip', 'CDP round trip', 'ms', asks.ours, { what: 'directly', samples: asks.theirs }),
  ]
}
