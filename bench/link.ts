// Measures connecting to a running browser, sending a request and opening a page, in turns directly and through Cob.
import { FILLING, startChromium } from './bare.ts'
import type { Bench } from './bench.ts'
import { firstAnswer } from './cdp.ts'
import { drive } from './drive.ts'
import { row, timed, type Row } from './figures.ts'
import type { Service } from './sessions.ts'
import { turns } from './turns.ts'

/** CDP round trips through Cob and directly, in turns. */
async function roundTrips(bench: Bench, ours: string, theirs: string): Promise<{ ours: number[]; theirs: number[] }> {
  using scope = new DisposableStack()
  const [ourCdp, bareCdp] = [scope.use(await firstAnswer(ours, bench.signal)), scope.use(await firstAnswer(theirs, bench.signal))]
  const ask = async (cdp: typeof ourCdp) => (await timed(() => cdp.version())).ms
  const many = (count: number) =>
    turns(
      bench,
      count,
      () => ask(ourCdp),
      () => ask(bareCdp),
    )
  // The first calls of a process run code that is not compiled yet, in Cob and in the bench.
  await many(100)
  return await many(bench.counts.roundTrips)
}

/** CDP round trips when the agent is reached over TCP and TLS, as on another machine. */
export async function measureRemoteLink(bench: Bench, service: Service): Promise<Row[]> {
  await using scope = new AsyncDisposableStack()
  const session = scope.use(await service.create())
  const bare = scope.use(await startChromium(bench.display, FILLING, bench.signal))
  const { ours, theirs } = await roundTrips(bench, session.cdpUrl, bare.cdpUrl)
  return [row('round_trip_tls', 'CDP round trip, agent reached by TCP and TLS', 'ms', ours, { what: 'directly', samples: theirs })]
}

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

  const asks = await roundTrips(bench, session.cdpUrl, bare.cdpUrl)

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
