// Measures pointer and keys: input through Cob's API, compared to one spawned xdotool per event.
import { sleep } from '../src/base/wait.ts'
import { FILLING, startChromium } from './bare.ts'
import type { Bench } from './bench.ts'
import { drive } from './drive.ts'
import { arrived, clearField } from './field.ts'
import { row, timed, type Row } from './figures.ts'
import { say } from './say.ts'
import type { Service, Session } from './sessions.ts'
import { xdotool } from './tools.ts'
import { again, turns } from './turns.ts'

/** The events in the batch from which the cost per event is computed. */
const MOVES = 200
const MIXED = 100
const WARM_UP = 30
/** The time for both Chromiums to handle their input, so that the work of one is not in the time of the other. */
const HANDLED_MS = 50
const SPAWNED = 'xdotool spawned'

/** Positions on the page, never the same pixel twice in a row. */
const pointAt = (index: number): { x: number; y: number } => ({ x: 500 + ((index * 37) % 900), y: 400 + ((index * 23) % 500) })

export async function measureInput(bench: Bench, service: Service): Promise<Row[]> {
  const { counts, display, pages, signal } = bench
  await using scope = new AsyncDisposableStack()
  const session = scope.use(await service.create())
  const bare = scope.use(await startChromium(display, FILLING, signal))
  const [ours, theirs] = [scope.use(await drive(session.cdpUrl)), scope.use(await drive(bare.cdpUrl))]
  await Promise.all([ours.page.goto(pages.inside('field')), theirs.page.goto(pages.local('field'))])
  const micros = async (work: () => Promise<unknown>, events = 1) => ((await timed(work)).ms * 1000) / events
  let index = 0
  const point = () => pointAt(index++)

  const moveOne = () => micros(() => session.computer('move_mouse', { ...point(), smooth: false }))
  const moveSpawned = () => {
    const { x, y } = point()
    return micros(() => xdotool(display, ['mousemove', String(x), String(y)], signal))
  }
  await turns(bench, WARM_UP, moveOne, moveSpawned)
  const moves = await turns(bench, counts.moves, moveOne, moveSpawned)

  const handled = async (work: () => Promise<number>) => {
    const taken = await work()
    await sleep(HANDLED_MS, signal)
    return taken
  }
  const moveMany = async () => {
    const actions = Array.from({ length: MOVES }, () => ({ type: 'move_mouse', move_mouse: { ...point(), smooth: false } }))
    return await handled(() => micros(() => session.computer('batch', { actions }), MOVES))
  }
  await again(bench, 5, moveMany)
  const batches = await turns(bench, counts.moveBatches, moveMany, () => handled(moveSpawned))
  await checkPointer(session, pointAt(index - 2))

  const [sent, sentTheirs] = [
    { clicks: 0, keys: 0 },
    { clicks: 0, keys: 0 },
  ]
  await Promise.all([clearField(ours.page), clearField(theirs.page)])
  const click = () => (sent.clicks++, micros(() => session.computer('click_mouse', point())))
  const clickSpawned = (...how: string[]) => {
    const { x, y } = point()
    sentTheirs.clicks++
    return micros(() => xdotool(display, ['mousemove', String(x), String(y), 'click', ...how, '1'], signal))
  }
  const clicks = await turns(bench, counts.clicks, click, clickSpawned)
  const hurried = await turns(bench, counts.clicks, click, () => clickSpawned('--delay', '0'))
  const mixed = await turns(
    bench,
    counts.mixedBatches,
    () => handled(async () => (await timed(() => session.computer('batch', { actions: mixedActions(sent) }))).ms),
    () => handled(async () => (await timed(() => xdotool(display, mixedArgs(sentTheirs), signal))).ms),
  )
  await sleep(HANDLED_MS, signal)
  tellLost('our', sent, await arrived(ours.page))
  tellLost("xdotool's", sentTheirs, await arrived(theirs.page))

  const ask = async () => (await timed(() => session.computer('get_mouse_position'))).ms
  await again(bench, WARM_UP, ask)
  const asks = await again(bench, counts.positions, ask)
  return [
    row('move_event', `pointer move, one of ${MOVES} in a batch`, 'µs', batches.ours, { what: SPAWNED, samples: batches.theirs }),
    row('move', 'pointer move, one call', 'µs', moves.ours, { what: SPAWNED, samples: moves.theirs }),
    row('click', 'click, one call', 'µs', clicks.ours, { what: `${SPAWNED}, which waits 100 ms`, samples: clicks.theirs }),
    row('click_hurried', '  the same', 'µs', hurried.ours, { what: `${SPAWNED}, click --delay 0`, samples: hurried.theirs }),
    row('batch', `batch of ${MIXED} moves, clicks and keys`, 'ms', mixed.ours, { what: 'one xdotool with all, --delay 0', samples: mixed.theirs }),
    row('position', 'where the pointer is (smallest API call)', 'ms', asks),
  ]
}

type Sent = Record<'clicks' | 'keys', number>
const MIX = ['move', 'click', 'key'] as const
const LETTERS = 'abcdefghijklmnopqrstuvwxyz'
const mix = (): { kind: (typeof MIX)[number]; x: number; y: number; key: string }[] =>
  Array.from({ length: MIXED }, (_, at) => ({ kind: MIX[at % MIX.length]!, ...pointAt(at), key: LETTERS[at % LETTERS.length]! }))

function mixedActions(sent: Sent): object[] {
  return mix().map(({ kind, x, y, key }) => {
    if (kind === 'move') return { type: 'move_mouse', move_mouse: { x, y, smooth: false } }
    sent[`${kind}s`]++
    return kind === 'click' ? { type: 'click_mouse', click_mouse: { x, y } } : { type: 'press_key', press_key: { keys: [key] } }
  })
}

function mixedArgs(sent: Sent): string[] {
  return mix().flatMap(({ kind, x, y, key }) => {
    if (kind !== 'move') sent[`${kind}s`]++
    return kind === 'key' ? ['key', '--delay', '0', key] : ['mousemove', String(x), String(y), ...(kind === 'click' ? ['click', '--delay', '0', '1'] : [])]
  })
}

/** Checks that the input arrived; otherwise a fast result means nothing. */
async function checkPointer(session: Session, expected: { x: number; y: number }): Promise<void> {
  const seen = (await session.computer('get_mouse_position')).toString()
  if (seen !== JSON.stringify(expected)) throw new Error(`the pointer is at ${seen}, not at ${JSON.stringify(expected)}`)
}

function tellLost(whose: string, sent: Sent, seen: Sent): void {
  for (const kind of ['clicks', 'keys'] as const) if (seen[kind] !== sent[kind]) say(`of ${whose} ${sent[kind]} ${kind} the page saw ${seen[kind]}`)
}
