// Measures lean sessions beside full ones of the same service, a bare Chromium, and Playwright's own launch.
import { launchable } from './bare.ts'
import type { Bench } from './bench.ts'
import { coldLife, rawStart } from './cold.ts'
import { PREPARED_MS } from './costs.ts'
import { openPage } from './drive.ts'
import { row, type Row } from './figures.ts'
import { life, ownLaunch } from './lives.ts'
import { startService, type Service, type Session } from './sessions.ts'
import { sleep } from '../src/base/wait.ts'
import { memoryMb, tree, type Meter } from './usage.ts'

export const LEAN = { COB_HEADLESS: 'auto' }
const HEADLESS = { headless: true }
const AT_ONCE = 5
const KINDS = [
  ['lean', HEADLESS],
  ['full', {}],
] as const
/** Sessions of a kind whose memory is measured together: those of a machine share the pages of their programs. */
const SHARING = 4
/** After its first page, a browser continues to start for a while. */
const SETTLE_MS = 5_000

/** `service` keeps no browsers ready and starts lean ones; `meter` has counted it from its start. */
export async function measureLean(bench: Bench, service: Service, meter: Meter): Promise<Row[]> {
  const { counts, pages, signal, rest } = bench
  const start: Record<'lean' | 'full' | 'bare', number[]> = { lean: [], full: [], bare: [] }
  // The first boot of a new service compiles the agent's code.
  await coldLife(bench, service, HEADLESS)
  for (let i = 0; i < counts.cold; i++) {
    await rest()
    start.bare.push(await rawStart(bench))
    await rest()
    start.lean.push((await coldLife(bench, service, HEADLESS)).ms)
    await rest()
    start.full.push((await coldLife(bench, service)).ms)
  }

  const cpu: Record<'lean' | 'full', number[]> = { lean: [], full: [] }
  for (let i = 0; i < counts.cpuLives; i++)
    for (const [kind, options] of KINDS) {
      await rest()
      const used = () => meter.seconds(tree(service.cloud.pid()))
      const before = used()
      await using session = await service.create(options)
      await openPage(session.cdpUrl, pages.inside('small'))
      // Without a meter that counts ended processes, the end of the session is not counted.
      const open = used()
      await session.delete()
      await sleep(PREPARED_MS, signal)
      cpu[kind].push((meter.countsEnded ? used() : open) - before)
    }

  const memory: Record<'lean' | 'full', number[]> = { lean: [], full: [] }
  for (let i = 0; i < counts.costs; i++)
    for (const [kind, options] of KINDS) {
      await rest()
      await using scope = new AsyncDisposableStack()
      const sessions: Session[] = []
      for (let at = 0; at < SHARING; at++) {
        const session = scope.use(await service.create(options))
        await openPage(session.cdpUrl, pages.inside('rich'))
        sessions.push(session)
      }
      await sleep(SETTLE_MS, signal)
      memory[kind].push(memoryMb(sessions.flatMap((session) => tree(service.pidOf(session)))) / SHARING)
    }

  return [
    row('lean_cold', 'cold create of a lean session, to CDP answer', 'ms', start.lean, { what: 'bare headful Chromium, the same', samples: start.bare }),
    row('lean_cold_full', 'cold create of a full session, to CDP answer', 'ms', start.full),
    row('lean_cpu', 'CPU of a lean life', 's', cpu.lean, { what: 'of a full life', samples: cpu.full }),
    row('lean_memory', 'memory of a lean session with a page, of four (Pss)', 'MB', memory.lean, { what: 'of a full session', samples: memory.full }),
  ]
}

/** Lives of lean sessions one after the other and five at once; each service is new and has default settings. */
export async function measureLeanLives(bench: Bench): Promise<Row[]> {
  const { counts, signal, rest } = bench
  using program = launchable()
  const own = async (): Promise<number> => (await ownLaunch(bench, program, true)).whole
  const ours = async (service: Service): Promise<number> => (await life(bench, service, HEADLESS)).whole
  const times = async (count: number, one: () => Promise<number>): Promise<number[]> => {
    const all: number[] = []
    for (let i = 0; i < count; i++) all.push(await one())
    return all
  }
  const together = (one: () => Promise<number>) => Promise.all(Array.from({ length: AT_ONCE }, one))
  const aRow: Record<'ours' | 'own', number[]> = { ours: [], own: [] }
  const five: Record<'ours' | 'own', number[]> = { ours: [], own: [] }
  for (let round = 0; round < counts.bursts; round++) {
    await rest()
    aRow.own.push(...(await times(counts.rowLives / counts.bursts, own)))
    await rest()
    five.own.push(...(await together(own)))
    // Nothing lean is ready for the first five of a new service; later ones find what it has learned. A first full browser shows that the agent's code is compiled.
    await using service = await startService(1, signal, { ...LEAN, COB_WARM_BROWSERS_MAX: '' })
    await service.warm(1)
    await rest()
    five.ours.push(...(await together(() => ours(service))))
    await rest()
    aRow.ours.push(...(await times(counts.rowLives / counts.bursts, () => ours(service))))
  }
  const what = "Playwright's own headless launch"
  return [
    row('lean_row', 'lean lives without pause', 'ms', aRow.ours, { what, samples: aRow.own }),
    row('lean_five', 'lean lives, five at once, nothing ready', 'ms', five.ours, { what, samples: five.own }),
  ]
}
