// Measures typing of a thousand characters: the time until the page has them, through Cob's API and by xdotool.
import { FILLING, startChromium } from './bare.ts'
import type { Bench } from './bench.ts'
import { drive } from './drive.ts'
import { clearField, written } from './field.ts'
import { row, type Row } from './figures.ts'
import { say } from './say.ts'
import type { Service } from './sessions.ts'
import { xdotool } from './tools.ts'
import { turns } from './turns.ts'

const CHARACTERS = 1000
const TEXT = 'The quick brown Fox jumps over 13 lazy dogs, (twice) & says: "Hello!" '.repeat(20).slice(0, CHARACTERS)

export async function measureTyping(bench: Bench, service: Service): Promise<Row[]> {
  const { counts, display, pages, signal } = bench
  await using scope = new AsyncDisposableStack()
  const session = scope.use(await service.create())
  const bare = scope.use(await startChromium(display, FILLING, signal))
  const [ours, theirs] = [scope.use(await drive(session.cdpUrl)), scope.use(await drive(bare.cdpUrl))]
  await Promise.all([ours.page.goto(pages.inside('field')), theirs.page.goto(pages.local('field'))])
  await session.computer('click_mouse', { x: 960, y: 600 })
  await xdotool(display, ['mousemove', '960', '600', 'click', '1'], signal)

  const lengths: [number[], number[]] = [[], []]
  const garbled: [number, number] = [0, 0]
  const type = async (whose: 0 | 1, { page }: typeof ours, work: () => Promise<unknown>) => {
    await clearField(page)
    const began = performance.now()
    await work()
    const { text, agoMs } = await written(page, CHARACTERS)
    const ms = performance.now() - agoMs - began
    lengths[whose].push(text.length)
    if (text !== TEXT) garbled[whose]++
    return ms
  }
  const times = await turns(
    bench,
    counts.typings,
    () => type(0, ours, () => session.computer('type', { text: TEXT, delay: 0 })),
    () => type(1, theirs, () => xdotool(display, ['type', '--delay', '0', TEXT], signal)),
  )
  if (garbled[0] > 0) say(`${garbled[0]} of our ${counts.typings} texts arrived different from what was sent`)
  if (garbled[1] > 0) say(`${garbled[1]} of xdotool's ${counts.typings} texts arrived different from what was sent`)
  return [
    row('typing', `typing ${CHARACTERS} characters, until the page has them`, 'ms', times.ours, { what: 'xdotool type --delay 0', samples: times.theirs }),
    row('typing_arrived', '  characters that arrived', '', lengths[0], { what: '  the same', samples: lengths[1] }),
  ]
}
