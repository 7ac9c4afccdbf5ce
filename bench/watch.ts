// Measures recordings: their cost compared to an ffmpeg that grabs a display, and the time from their end until they can be downloaded.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createWriteStream, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { sleep, until, within } from '../src/base/wait.ts'
import { CHROMIUM, FILLING, SCREEN, startChromium, type Display } from './bare.ts'
import type { Bench } from './bench.ts'
import { drive } from './drive.ts'
import { row, timed, type Row } from './figures.ts'
import type { Service, Session } from './sessions.ts'
import { temporary } from './temporary.ts'
import { cpuSeconds, cpuSecondsOfEnded, tree } from './usage.ts'
import { again } from './turns.ts'
import { whole } from './whole.ts'

const FRAMERATE = 10
/** After this time the page is drawn, and the browser has finished the work of opening it. */
const DRAWN_MS = 1_500
const ENDED_MS = 30_000
const READY_MS = 30_000
const CALLED = 'ffmpeg -f x11grab'

interface Cost {
  /** CPU in percent of a core. */
  cpu: number
  picturesPerSecond: number
}

/** The session and ffmpeg record the same pages in turns; meanwhile the other's page is static. A row says when one made fewer frames than requested. */
export async function measureRecordings(bench: Bench, service: Service): Promise<Row[]> {
  const { counts, display, pages, signal, rest } = bench
  await using scope = new AsyncDisposableStack()
  const folder = scope.use(temporary())
  const file = join(folder.path, 'film.mp4')
  const session = scope.use(await service.create())
  const bare = scope.use(await startChromium(display, FILLING, signal))
  const [ours, theirs] = [scope.use(await drive(session.cdpUrl)).page, scope.use(await drive(bare.cdpUrl)).page]

  const ends: [number[], number[]] = [[], []]
  const costs = { still: [[], []] as [Cost[], Cost[]], moving: [[], []] as [Cost[], Cost[]] }
  const added = async (used: () => number, record: () => Promise<void>, end: () => Promise<void>, fetched = async () => {}): Promise<Cost> => {
    await rest()
    await sleep(DRAWN_MS, signal)
    const over = async (work: () => Promise<void>) => {
      const before = used()
      const { ms } = await timed(work)
      return { ms, seconds: used() - before }
    }
    const without = await over(() => sleep(counts.recorderMs, signal))
    // Includes start and end: x264 reads 40 frames before it encodes the first, and an encoder that was too slow catches up at the end.
    const recording = await over(async () => {
      await record()
      await sleep(counts.recorderMs, signal)
      await end()
    })
    await fetched()
    const cpu = (100 * (recording.seconds - without.seconds * (recording.ms / without.ms))) / (counts.recorderMs / 1000)
    return { cpu, picturesPerSecond: await picturesPerSecond(file, signal) }
  }
  for (let i = 0; i < counts.recorders; i++)
    for (const [kind, name] of [
      ['still', 'rich'],
      ['moving', 'moving'],
    ] as const) {
      await Promise.all([ours.goto(pages.inside(name)), theirs.goto(pages.local('small'))])
      let id = ''
      costs[kind][0].push(
        await added(
          () => cpuSeconds(tree(service.cloud.pid()).filter(isNoChromium)),
          async () => void (id = await startReplay(session)),
          async () => void (await stopReplay(session, id, signal)),
          async () => pipeline(await session.call('GET', `replays/${id}`), createWriteStream(file)),
        ),
      )
      await Promise.all([ours.goto(pages.inside('small')), theirs.goto(pages.local(name))])
      await using grabber = grab(display, file, signal)
      costs[kind][1].push(
        await added(
          () => cpuSeconds(display.pids().filter(isNoChromium)) + cpuSecondsOfEnded(),
          () => grabber.start(),
          async () => void ends[1].push((await timed(() => grabber.end())).ms),
        ),
      )
    }
  await ours.goto(pages.inside('moving'))
  ends[0].push(
    ...(await again(bench, counts.replays, async () => {
      const id = await startReplay(session)
      await sleep(counts.replayMs, signal)
      return stopReplay(session, id, signal)
    })),
  )
  const pair = (id: string, what: string, unit: Row['unit'], kind: keyof typeof costs, value: (cost: Cost) => number): Row =>
    row(id, what, unit, costs[kind][0].map(value), { what: CALLED, samples: costs[kind][1].map(value) })
  return [
    pair('record_still', `CPU of recording ${counts.recorderMs / 1000} s from start to end, ${FRAMERATE}/s: still page`, '%', 'still', ({ cpu }) => cpu),
    pair('record_moving', '  moving page', '%', 'moving', ({ cpu }) => cpu),
    pair('record_pictures', '  pictures in the film of it', '/s', 'moving', ({ picturesPerSecond: rate }) => rate),
    row('replay_stop', `stop until downloadable, after ${counts.replayMs / 1000} s of the moving page`, 'ms', ends[0], {
      what: `that ffmpeg ends, after ${counts.recorderMs / 1000} s`,
      samples: ends[1],
    }),
  ]
}

/** Counts only the recorder's processes, because the page's own drawing varies with other load. */
const isNoChromium = (pid: number): boolean => {
  try {
    return basename(readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')[0]!.split(' ')[0]!) !== basename(CHROMIUM)
  } catch {
    return false // the process has ended
  }
}

async function startReplay(session: Session): Promise<string> {
  const answer = await whole(await session.call('POST', 'replays', { body: { framerate: FRAMERATE } }))
  return (JSON.parse(answer.toString()) as { replay_id: string }).replay_id
}

/** Stops a recording, and polls until it can be downloaded. Returns the milliseconds of both. */
async function stopReplay(session: Session, id: string, signal: AbortSignal): Promise<number> {
  const { ms } = await timed(async () => {
    await whole(await session.call('POST', `replays/${id}/stop`))
    const isThere = async () => {
      const answer = await session.call('GET', `replays/${id}`)
      // The body is not needed.
      if (answer.statusCode === 200) answer.destroy()
      else await whole(answer)
      return answer.statusCode === 200
    }
    await until('the replay', READY_MS, isThere, { everyMs: 5, signal })
  })
  return ms
}

/** The usual ffmpeg command to record a display, with a pixel format that players support. */
function grab({ name }: Display, file: string, signal: AbortSignal): { start(): Promise<void>; end(): Promise<void> } & AsyncDisposable {
  const size = `${SCREEN.width}x${SCREEN.height}`
  const source = ['-f', 'x11grab', '-framerate', `${FRAMERATE}`, '-video_size', size, '-i', name]
  let child: ReturnType<typeof spawn> | undefined
  let exited: Promise<unknown[]> | undefined
  return {
    async start() {
      const args = ['-nostdin', '-y', '-loglevel', 'error', ...source, '-c:v', 'libx264', '-pix_fmt', 'yuv420p', file]
      child = spawn('ffmpeg', args, { stdio: ['ignore', 'ignore', 'inherit'], signal, killSignal: 'SIGKILL' })
      exited = once(child, 'exit')
      exited.catch(() => {})
      await once(child, 'spawn')
    },
    async end() {
      child!.kill('SIGINT')
      await within('the end of ffmpeg', ENDED_MS, exited!, signal)
    },
    async [Symbol.asyncDispose]() {
      if (!child || child.exitCode !== null || child.signalCode !== null) return
      child.kill('SIGKILL')
      await exited!.catch(() => {})
    },
  }
}

async function picturesPerSecond(file: string, signal: AbortSignal): Promise<number> {
  const asked = ['-count_packets', '-select_streams', 'v:0', '-show_entries', 'stream=nb_read_packets:format=duration', '-of', 'json', file]
  const child = spawn('ffprobe', ['-loglevel', 'error', ...asked], { stdio: ['ignore', 'pipe', 'inherit'], signal })
  const [said] = await Promise.all([whole(child.stdout), once(child, 'exit')])
  const { streams, format } = JSON.parse(said.toString()) as { streams: { nb_read_packets: string }[]; format: { duration: string } }
  return Number(streams[0]!.nb_read_packets) / Number(format.duration)
}
