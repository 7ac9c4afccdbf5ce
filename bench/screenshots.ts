// A picture of a screen full of things: by our API, and by the ffmpeg that is commonly spawned for it, of the same page.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { buffer } from 'node:stream/consumers'
import sharp from 'sharp'
import { sleep } from '../src/base/wait.ts'
import { FILLING, SCREEN, startChromium, type Display } from './bare.ts'
import type { Bench } from './bench.ts'
import { openPage } from './drive.ts'
import { row, timed, type Row } from './figures.ts'
import { say } from './say.ts'
import type { Service } from './sessions.ts'
import { turns } from './turns.ts'

const FFMPEG_MS = 30_000
/** Fonts and canvases are drawn, and nothing moves any more. */
const DRAWN_MS = 2_000
/** Mean difference of two pictures of the same page, of 255, that different toolbars explain. */
const ALIKE = 12

export async function measureScreenshots(bench: Bench, service: Service): Promise<Row[]> {
  const { counts, display, pages, signal } = bench
  await using scope = new AsyncDisposableStack()
  const session = scope.use(await service.create())
  const bare = scope.use(await startChromium(display, FILLING, signal))
  await Promise.all([openPage(session.cdpUrl, pages.inside('rich')), openPage(bare.cdpUrl, pages.local('rich'))])
  await sleep(DRAWN_MS, signal)

  await compare(await session.screenshot(), await ffmpegShot(display, signal))
  const sizes: number[][] = [[], []]
  const shoot = async (take: () => Promise<Buffer>, into: number[]) => {
    const { ms, result } = await timed(take)
    into.push(result.length / 1e6)
    return ms
  }
  const { ours, theirs } = await turns(
    bench,
    counts.screenshots,
    () => shoot(() => session.screenshot(), sizes[0]!),
    () => shoot(() => ffmpegShot(display, signal), sizes[1]!),
  )
  return [
    row('screenshot', 'screenshot 1920x1080, rich page', 'ms', ours, { what: 'ffmpeg spawned', samples: theirs }),
    row('screenshot_size', 'its PNG', 'MB', sizes[0]!, { what: 'its PNG', samples: sizes[1]! }),
  ]
}

async function ffmpegShot({ name }: Display, signal: AbortSignal): Promise<Buffer> {
  const size = `${SCREEN.width}x${SCREEN.height}`
  const child = spawn(
    'ffmpeg',
    ['-loglevel', 'error', '-f', 'x11grab', '-video_size', size, '-i', name, '-frames:v', '1', '-f', 'image2pipe', '-c:v', 'png', '-'],
    { stdio: ['ignore', 'pipe', 'inherit'], signal, timeout: FFMPEG_MS, killSignal: 'SIGKILL' },
  )
  const [picture, [code]] = await Promise.all([buffer(child.stdout), once(child, 'close')])
  if (code !== 0) throw new Error(`ffmpeg ended with ${code}`)
  return picture
}

/** Makes sure that the two ways show the same page at the same size: otherwise their times say nothing. */
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
