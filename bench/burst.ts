// Measures callers that do not wait for the warm pool to fill (lives without pauses, many at once, a step of demand), compared to Chromium started without a service.
import { sleep } from '../src/base/wait.ts'
import type { Bench } from './bench.ts'
import { openBaselines, withOurs, type Contender, type Ours } from './contenders.ts'
import { figuresOf, row, timed, type Row } from './figures.ts'
import type { Lived } from './lives.ts'
import { startService } from './sessions.ts'
import { memoryMb } from './usage.ts'

/** The service learns the demand from bursts of this size, one at the start of every interval. */
const LEARNED = 5
const LEARN_EVERY_MS = 8_000
/** In the step of demand, one create starts at this interval. */
const STEP_EVERY_MS = 500
/** The most concurrent lives in the step, so that the memory of a small machine suffices. Later lives wait, and their wait counts. */
const STEP_AT_ONCE = 10
/** The number of boots whose median is the pause of a caller that paces itself. */
const BOOTS = 5

/** The results of one contender in one pattern of use. */
interface Taken {
  what: string
  lives: Lived[]
  /** CPU seconds of one life, one value for each block of lives. */
  cpu: number[]
}

interface Pattern {
  id: string
  what: string
  /** How many new services are measured. The baselines run before each, and once more at the end. */
  rounds?: number
  /** Measures the service in blocks; the CPU time of each block is counted. */
  ours: (ours: Ours, block: (work: () => Promise<Lived[]>) => Promise<void>) => Promise<void>
  /** One measurement of a baseline. */
  theirs: (contender: Contender) => Promise<Lived[]>
}

/**
 * Measures all patterns. Each pattern has its own services with default settings, so that no pattern benefits from demand learned in another. The baselines run
 * before, between and after them.
 */
export async function measureBurst(bench: Bench, tell: (what: string) => void): Promise<Row[]> {
  const { counts, signal } = bench
  await using baselines = openBaselines(bench)

  async function measure({ id, what, rounds = 1, ours, theirs }: Pattern): Promise<Row[]> {
    tell(what)
    const our: Taken = { what: 'Cob', lives: [], cpu: [] }
    const their: Taken[] = baselines.all.map((one) => ({ what: one.what, lives: [], cpu: [] }))
    const beside = async () => {
      for (const [at, contender] of baselines.all.entries()) {
        await bench.rest()
        await count(contender, their[at]!, () => theirs(contender))
      }
    }
    for (let i = 0; i < rounds; i++) {
      await beside()
      await withOurs(bench, (one) => ours(one, (work) => count(one, our, work)))
    }
    await beside()
    return rowsOf(id, what, our, their)
  }

  /** Lives that are due at a steady rate. The time of a life counts from when it was due. */
  async function steady(contender: Contender): Promise<Lived[]> {
    const lives: Lived[] = []
    const began = performance.now()
    let next = 0
    const caller = async () => {
      for (let due = STEP_EVERY_MS * next++; due < counts.stepMs; due = STEP_EVERY_MS * next++) {
        await sleep(Math.max(0, began + due - performance.now()), signal)
        const late = performance.now() - began - due
        const { create, whole } = await contender.live()
        lives.push({ create: late + create, whole: late + whole })
      }
    }
    await Promise.all(Array.from({ length: STEP_AT_ONCE }, caller))
    return lives
  }

  /** Bursts that start on time, unless the previous one takes longer. */
  async function rhythm(ours: Ours, ms: number): Promise<Lived[]> {
    const lives: Lived[] = []
    const began = performance.now()
    for (let end = LEARN_EVERY_MS; end <= ms; end += LEARN_EVERY_MS) {
      lives.push(...(await atOnce(ours, LEARNED)))
      await sleep(Math.max(0, began + end - performance.now()), signal)
    }
    return lives
  }

  const rows = await measure({
    id: 'burst_row',
    what: `${counts.rowLives} lives without pause`,
    ours: (ours, block) => block(() => inARow(ours, counts.rowLives)),
    theirs: (contender) => inARow(contender, counts.rowLives / 2),
  })
  for (const [id, size, rounds] of [
    ['burst_five', 5, counts.bursts],
    ['burst_ten', 10, counts.bursts / 2],
  ] as const)
    rows.push(
      ...(await measure({
        id,
        what: `lives, ${size} at once`,
        rounds,
        ours: (ours, block) => block(() => atOnce(ours, size)),
        theirs: (contender) => atOnce(contender, size),
      })),
    )

  const pauseMs = await bootMs(bench)
  rows.push(
    ...(await measure({
      id: 'burst_paced',
      what: `lives with pauses of a boot (${pauseMs.toFixed(0)} ms)`,
      ours: (ours, block) => block(() => inARow(ours, counts.pacedLives, pauseMs)),
      theirs: (contender) => inARow(contender, Math.ceil(counts.pacedLives / 4), pauseMs),
    })),
    ...(await measure({
      id: 'burst_learned',
      what: `lives, ${LEARNED} at once, after a minute of such bursts`,
      async ours(ours, block) {
        await rhythm(ours, counts.learnMs)
        await block(() => rhythm(ours, counts.bursts * LEARN_EVERY_MS))
      },
      theirs: (contender) => atOnce(contender, LEARNED),
    })),
  )

  const memory: { before: number[]; after: number[] } = { before: [], after: [] }
  const kept: number[] = []
  const woken: number[] = []
  rows.push(
    ...(await measure({
      id: 'burst_step',
      what: `from 0 to ${1000 / STEP_EVERY_MS} creates a second, counted from when they were due`,
      async ours(ours, block) {
        memory.before.push(memoryMb(ours.pids()))
        await block(() => steady(ours))
        await sleep(counts.quietMs, signal)
        memory.after.push(memoryMb(ours.pids()))
        kept.push((await ours.service.cloud.query(`select id from browsers where state = 'warm'`)).length)
        woken.push((await ours.live()).create)
      },
      theirs: steady,
    })),
    row('burst_idle_memory', `memory of the service with its warm browsers, ${counts.quietMs / 1000} s after the step`, 'MB', memory.after, {
      what: 'before the step',
      samples: memory.before,
    }),
    row('burst_idle_warm', '  warm browsers then', '', kept),
    row('burst_idle_create', '  create then', 'ms', woken),
  )
  return rows

  async function inARow(contender: Contender, count: number, pauseMs = 0): Promise<Lived[]> {
    const lives: Lived[] = []
    while (lives.length < count) {
      lives.push(await contender.live())
      await sleep(pauseMs, signal)
    }
    return lives
  }
}

const atOnce = (contender: Contender, size: number): Promise<Lived[]> => Promise.all(Array.from({ length: size }, () => contender.live()))

/** Adds the lives of one block, and their CPU time. */
async function count(contender: Contender, taken: Taken, work: () => Promise<Lived[]>): Promise<void> {
  const { result: lives, cpuSeconds } = await contender.counted(work)
  taken.lives.push(...lives)
  if (cpuSeconds !== undefined) taken.cpu.push(cpuSeconds / lives.length)
}

/** The time of a create when no browser is warm and nothing else runs. */
async function bootMs({ signal, rest }: Bench): Promise<number> {
  await using service = await startService(0, signal)
  const boots: number[] = []
  while (boots.length < BOOTS) {
    await rest()
    const { ms, result: session } = await timed(() => service.create())
    boots.push(ms)
    await session.delete()
  }
  return figuresOf(boots).p50
}

function rowsOf(id: string, what: string, ours: Taken, theirs: readonly Taken[]): Row[] {
  const rows = theirs.map((their, at) => {
    const samples = their.lives.map(({ whole }) => whole)
    const wholes = ours.lives.map(({ whole }) => whole)
    return row(`${id}${at === 0 ? '' : `_${at}`}`, at === 0 ? what : '  the same', 'ms', wholes, { what: their.what, samples })
  })
  const creates = ({ lives }: Taken) => lives.map(({ create }) => create)
  rows.push(row(`${id}_create`, '  create', 'ms', creates(ours), { what: `${theirs[0]!.what}: launch`, samples: creates(theirs[0]!) }))
  if (ours.cpu.length > 0)
    rows.push(...theirs.map((their, at) => row(`${id}_cpu_${at}`, '  CPU of a life', 's', ours.cpu, { what: their.what, samples: their.cpu })))
  return rows
}
