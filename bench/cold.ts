// Measures a cold start until the first answer: Chromium started by hand, and a session of a service without warm browsers.
import { startChromium } from './bare.ts'
import type { Bench } from './bench.ts'
import { firstAnswer } from './cdp.ts'
import { row, timed, type Row } from './figures.ts'
import type { Service } from './sessions.ts'

export async function measureCold(bench: Bench, service: Service): Promise<Row[]> {
  const raw: number[] = []
  const ours: number[] = []
  const deletes: number[] = []
  for (let i = 0; i < bench.counts.cold; i++) {
    await bench.rest()
    raw.push(await rawStart(bench))
    await bench.rest()
    const { ms, deleteMs } = await coldLife(bench, service)
    ours.push(ms)
    deletes.push(deleteMs)
  }
  return [
    row('cold_create', 'cold create, to CDP answer', 'ms', ours, { what: 'Chromium spawned, to CDP answer', samples: raw }),
    row('delete_cold', 'delete (none kept warm)', 'ms', deletes),
  ]
}

/** A bare Chromium on the running display, until it answers. */
export async function rawStart({ display, signal }: Bench): Promise<number> {
  await using scope = new AsyncDisposableStack()
  const { ms } = await timed(async () => {
    const chromium = scope.use(await startChromium(display, [], signal))
    scope.use(await firstAnswer(chromium.cdpUrl, signal))
  })
  return ms
}

export async function coldLife({ signal }: Bench, service: Service, options: object = {}): Promise<{ ms: number; deleteMs: number }> {
  await using scope = new AsyncDisposableStack()
  const { ms, result: session } = await timed(async () => {
    const created = scope.use(await service.create(options))
    using _ = await firstAnswer(created.cdpUrl, signal)
    return created
  })
  return { ms, deleteMs: (await timed(() => session.delete())).ms }
}
