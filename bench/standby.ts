// Measures standby: the time of a call that wakes a session, compared to one on an awake session and to a cold create, and the cost of a sleeping session.
import { sleep } from '../src/base/wait.ts'
import { asleep, cpuTicks, stoppable } from '../test/support/standby.ts'
import type { Bench } from './bench.ts'
import { firstAnswer, openCdp, pageOf, type Cdp } from './cdp.ts'
import { openPage } from './drive.ts'
import { row, timed, type Row } from './figures.ts'
import type { Service, Session } from './sessions.ts'
import { cpuSeconds, memoryMb, tree } from './usage.ts'

/** The settings of the service. */
export const STANDBY = { COB_STANDBY_AFTER_SECONDS: '1', COB_STANDBY_CONNECTED_AFTER_SECONDS: '1' }

const AWAKE = 'awake'

/** A program of the caller keeps the session awake. */
async function keepAwake(session: Session): Promise<void> {
  const started = await session.call('POST', 'process/spawn', { body: { command: 'sleep', args: ['3600'] } })
  started.resume()
}

/** Returns a CDP command that the page answers. */
async function asking(cdp: Cdp): Promise<() => Promise<unknown>> {
  const page = await pageOf(cdp)
  return () => page.value('1')
}

export async function measureStandby(bench: Bench, service: Service): Promise<Row[]> {
  const { counts, pages, signal, rest } = bench
  await using scope = new AsyncDisposableStack()
  const [sleeper, waker] = [scope.use(await service.create()), scope.use(await service.create())]
  await keepAwake(waker)
  for (const { cdpUrl } of [sleeper, waker]) await openPage(cdpUrl, pages.inside('rich'))
  const cdps = [scope.use(await openCdp(sleeper.cdpUrl, signal)), scope.use(await openCdp(waker.cdpUrl, signal))]
  const [askSleeper, askWaker] = [await asking(cdps[0]!), await asking(cdps[1]!)]

  const ms: Record<'calls' | 'awakeCalls' | 'commands' | 'awakeCommands' | 'creates', number[]> = {
    calls: [],
    awakeCalls: [],
    commands: [],
    awakeCommands: [],
    creates: [],
  }
  const sleeping = async () => {
    await asleep(service.cloud, sleeper.id)
    await rest()
  }
  for (let i = 0; i < counts.wakes; i++) {
    await sleeping()
    ms.calls.push((await timed(() => sleeper.computer('get_mouse_position'))).ms)
    ms.awakeCalls.push((await timed(() => waker.computer('get_mouse_position'))).ms)
    await sleeping()
    ms.commands.push((await timed(askSleeper)).ms)
    ms.awakeCommands.push((await timed(askWaker)).ms)
  }
  for (let i = 0; i < counts.costs; i++) {
    await rest()
    await using life = new AsyncDisposableStack()
    const { ms: took } = await timed(async () => life.use(await firstAnswer(life.use(await service.create()).cdpUrl, signal)))
    ms.creates.push(took)
  }

  await asleep(service.cloud, sleeper.id)
  await sleep(counts.asleepMs, signal)
  const of = ({ id }: Session) => stoppable(service.cloud, id)
  const [stopped, going] = [of(sleeper), of(waker)]
  const all = [tree(service.pidOf(sleeper)), tree(service.pidOf(waker))] as const
  const cpu = () => [cpuTicks(stopped).ticks / 100, cpuTicks(going).ticks / 100, cpuSeconds(all[0]), cpuSeconds(all[1])] as const
  const [before, began] = [cpu(), performance.now()]
  await sleep(counts.idleMs, signal)
  const seconds = (performance.now() - began) / 1000
  const idle = cpu().map((value, at) => ((value - before[at]!) / seconds) * 100) as [number, number, number, number]
  const memory = [memoryMb(all[0]), memoryMb(all[1])] as const
  // This call must read back memory that the sleeping session gave back.
  const after = await timed(askSleeper)

  return [
    row('wake_call', 'a call that wakes (get_mouse_position)', 'ms', ms.calls, { what: AWAKE, samples: ms.awakeCalls }),
    row('wake_command', 'a CDP command of a page that wakes', 'ms', ms.commands, { what: AWAKE, samples: ms.awakeCommands }),
    row('wake_or_create', 'the same, beside a new session', 'ms', ms.commands, { what: 'cold create, to CDP answer', samples: ms.creates }),
    row('wake_late', `the same, after ${Math.round(counts.asleepMs / 1000)} s of sleep`, 'ms', [after.ms]),
    row('asleep_cpu', 'idle CPU of what sleeps', '%', [idle[0]], { what: AWAKE, samples: [idle[1]] }),
    row('asleep_session_cpu', 'idle CPU of the whole session', '%', [idle[2]], { what: AWAKE, samples: [idle[3]] }),
    row('asleep_memory', `memory of a session (Pss), after ${Math.round(counts.asleepMs / 1000)} s of sleep`, 'MB', [memory[0]], {
      what: AWAKE,
      samples: [memory[1]],
    }),
  ]
}
