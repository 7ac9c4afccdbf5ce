// Measures several concurrent callers: all on one session, where they take turns, and each on its own session.
import type { Bench } from './bench.ts'
import { row, timed, type Row } from './figures.ts'
import type { Service, Session } from './sessions.ts'
import { turns } from './turns.ts'

const CALLERS = 4
const CALLS = 25

export async function measureCallers(bench: Bench, service: Service): Promise<Row[]> {
  await using scope = new AsyncDisposableStack()
  const sessions: Session[] = []
  while (sessions.length < CALLERS) sessions.push(scope.use(await service.create()))
  const caller = async (session: Session, offset: number, into: number[]) => {
    for (let i = 0; i < CALLS; i++) {
      const body = { x: 500 + i * 20, y: 300 + offset * 100, smooth: false }
      into.push((await timed(() => session.computer('move_mouse', body))).ms)
    }
  }
  const together = async (sessionOf: (at: number) => Session, into: number[]) =>
    (await timed(() => Promise.all(Array.from({ length: CALLERS }, (_, at) => caller(sessionOf(at), at, into))))).ms
  const onOne = (into: number[]) => together(() => sessions[0]!, into)
  const onEach = (into: number[]) => together((at) => sessions[at]!, into)

  await turns(
    bench,
    2,
    () => onOne([]),
    () => onEach([]),
  )
  const [one, each]: [number[], number[]] = [[], []]
  const whole = await turns(
    bench,
    bench.counts.callers,
    () => onOne(one),
    () => onEach(each),
  )
  const what = 'on four sessions'
  return [
    row('callers', `four callers at once on one session, ${CALLS} moves each`, 'ms', whole.ours, { what, samples: whole.theirs }),
    row('callers_call', '  one call of them', 'ms', one, { what, samples: each }),
  ]
}
