// Measures screenshots of a page full of content: through Cob's API, and with a spawned ffmpeg, the usual way.
import sharp from 'sharp'
import { sleep } from '../src/base/wait.ts'
import { FILLING, SCREEN, startChromium } from './bare.ts'
import type { Bench } from './bench.ts'
import { openPage } from './drive.ts'
import { row, timed, type Row } from './figures.ts'
import { say } from './say.ts'
import type { Service } from './sessions.ts'
import { ffmpegShot } from './tools.ts'
import { again, turns } from './turns.ts'

/** After this time fonts and canvases are drawn, and nothing moves. */
const DRAWN_MS = 2_000
/** The time for Chromium to handle a moved pointer. */
const MOVED_MS = 30
const WARM_UP = 3
/** The largest mean difference, of 255, between two pictures of the same page; different toolbars cause this much. */
const ALIKE = 12
const REGION = { x: 760, y: 400, width: 400, height: 300 }

export async function measureScreenshots(bench: Bench, service: Service): Promise<Row[]> {
  const { counts, display, pages, signal } = bench
  await using scope = new AsyncDisposableStack()
  const session = scope.use(await service.create())
  const bare = scope.use(await startChromium(display, FILLING, signal))
  await Promise.all([openPage(session.cdpUrl, pages.inside('rich')), openPage(bare.cdpUrl, pages.local('rich'))])
  await session.computer('cursor', { hidden: false })
  await sleep(DRAWN_MS, signal)
  await compare(await session.computer('screenshot'), await ffmpegShot(display, signal))

  const sizes: [number[], number[]] = [[], []]
  let last: Buffer = Buffer.alloc(0)
  const tally = { repeated: 0, redrawn: 0 }
  const shoot = async (body?: object) => {
    const { ms, result } = await timed(() => session.computer('screenshot', body))
    const same = result.equals(last)
    last = result
    return { ms, same }
  }
  // The API answers an unchanged screen with its last picture, so the pointer moves to another place in the region before each call.
  let moves = 0
  const changed = async (body?: object) => {
    await session.computer('move_mouse', { x: REGION.x + 100 + ((moves++ * 7) % 200), y: REGION.y + 150, smooth: false })
    await sleep(MOVED_MS, signal)
    const { ms, same } = await shoot(body)
    if (same) tally.repeated++
    return ms
  }
  const still = async () => {
    const { ms, same } = await shoot()
    if (!same) tally.redrawn++
    return ms
  }

  for (let i = 0; i < WARM_UP; i++) await changed()
  const pictures = await turns(
    bench,
    counts.screenshots,
    async () => {
      const ms = await changed()
      sizes[0].push(last.length / 1e6)
      return ms
    },
    async () => {
      const { ms, result } = await timed(() => ffmpegShot(display, signal))
      sizes[1].push(result.length / 1e6)
      return ms
    },
  )
  const regions = await again(bench, counts.screenshots, () => changed({ region: REGION }))
  await shoot()
  const stills = await again(bench, counts.screenshots, still)
  if (tally.repeated > 0) say(`${tally.repeated} screenshots show what the one before showed: the screen had not changed, or was not looked at`)
  if (tally.redrawn > 0) say(`${tally.redrawn} of ${counts.screenshots} screenshots of a still screen differ from the one before`)
  return [
    row('screenshot', 'screenshot 1920x1080, rich page, changed', 'ms', pictures.ours, { what: 'ffmpeg spawned', samples: pictures.theirs }),
    row('screenshot_size', '  its PNG', 'MB', sizes[0], { what: '  its PNG', samples: sizes[1] }),
    row('screenshot_region', `screenshot ${REGION.width}x${REGION.height} of it, changed`, 'ms', regions),
    row('screenshot_still', 'screenshot 1920x1080 of it, unchanged', 'ms', stills),
  ]
}

/** Checks that both methods show the same page at the same size; otherwise their times cannot be compared. */
async function compare(ours: Buffer, theirs: Buffer): Promise<void> {
  for (const [whose, picture] of [
    ['our', ours],
    ["ffmpeg's", theirs],
  ] as const) {
    const { width, height, format } = await sharp(picture).metadata()
    if (width !== SCREEN.width || height !== SCREEN.height || format !== 'png') throw new Error(`${whose} screenshot is ${format} ${width}x${height}`)
  }
  const [a, b] = await Promise.all([ours, theirs].map((picture) => sharp(picture).removeAlpha().resize(240, 135).raw().toBuffer()))
  const difference = a!.reduce((sum, value, at) => sum + Math.abs(value - b![at]!), 0) / a!.length
  if (difference > ALIKE) say(`the two screenshots differ (${difference.toFixed(1)} of 255 on average): do both show the page?`)
}
