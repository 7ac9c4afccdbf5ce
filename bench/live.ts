// Measures the live view: how long a viewer waits for the effect of a click, and how much data comes while the screen is unchanged.
import { sleep } from '../src/base/wait.ts'
import type { Bench } from './bench.ts'
import { openPage } from './drive.ts'
import { row, timed, type Row } from './figures.ts'
import { paintedAfter } from './moving.ts'
import { openView } from './rfb.ts'
import type { Service } from './sessions.ts'
import { again } from './turns.ts'

const WARM_UP = 5
/** After this time the page is drawn and sent. Within 4 s the server may send some of it again although the screen is unchanged. */
const STILL_MS = 8_000
/** The click is in the middle of the page. The watched place is far from the pointer. */
const PRESSED = { x: 960, y: 500 }
const WATCHED = { x: 960, y: 900 }
/** The shortest and the longest pause between clicks. It is random, so that clicks are not in step with frames. */
const PAUSE_MS = [60, 140] as const

export async function measureLive(bench: Bench, service: Service): Promise<Row[]> {
  const { counts, pages, signal } = bench
  await using session = await service.create()
  await openPage(session.cdpUrl, pages.inside('paint'))
  using view = await openView(session.liveUrl, WATCHED, signal)
  let presses = 0
  await view.shows(paintedAfter(presses))
  const click = async () => {
    await sleep(PAUSE_MS[0] + Math.random() * (PAUSE_MS[1] - PAUSE_MS[0]), signal)
    const { ms } = await timed(() => {
      view.click(PRESSED)
      return view.shows(paintedAfter(++presses))
    })
    return ms
  }
  await again(bench, WARM_UP, click)
  const clicks = await again(bench, counts.viewClicks, click)

  await openPage(session.cdpUrl, pages.inside('rich'))
  await sleep(STILL_MS, signal)
  const still = await again(bench, counts.views, async () => {
    const before = view.bytes()
    await sleep(counts.viewMs, signal)
    return (view.bytes() - before) / (counts.viewMs / 1000)
  })
  return [
    row('view_click', 'live view: a click until its colour is back', 'ms', clicks),
    row('view_still', `live view of a still page, over ${counts.viewMs / 1000} s`, 'B/s', still),
  ]
}
