// How many times each measurement is made: in full for reliable figures, or quickly to check that the bench works.

import { integer } from '../src/base/setting.ts'

export interface Counts {
  /** Cold boots of Chromium. */
  cold: number
  warm: number
  /** Single whole lives, and rounds of five at once. */
  lives: number
  fives: number
  connects: number
  gotos: number
  screenshots: number
  roundTrips: number
  /** Single calls of the computer controls. */
  moves: number
  clicks: number
  positions: number
  /** Batches of such calls, and texts. */
  moveBatches: number
  mixedBatches: number
  typings: number
  /** Rounds of several concurrent callers. */
  callers: number
  /** Programs run in a session, runs of Playwright code, and spawned Node processes as their baseline. */
  execs: number
  executes: number
  spawnedPlaywrights: number
  /** The size of a large file, how often it is uploaded and downloaded, and lists of many files. */
  fileMb: number
  files: number
  lists: number
  /** Rounds of recordings whose CPU is compared, and their length; stopped recordings, and their length. */
  recorders: number
  recorderMs: number
  replays: number
  replayMs: number
  /** Clicks in a live view; measurements of idle traffic, and their length. */
  viewClicks: number
  views: number
  viewMs: number
  /** Deploys of an example, calls of it, and streams of its log lines. */
  deploys: number
  invocations: number
  follows: number
  /** Pairs of a session and a bare browser whose memory and idle CPU are compared, and the length of each measurement. */
  costs: number
  idleMs: number
  /** Lives whose CPU time is measured. */
  cpuLives: number
  /**
   * Bursts: lives without pauses, rounds of five and of ten at once, lives with pauses, the time to learn the demand, the length of the step of demand, and the quiet
   * time after it.
   */
  rowLives: number
  bursts: number
  pacedLives: number
  learnMs: number
  stepMs: number
  quietMs: number
  /** Creates with a profile, with an extension, and with a proxy. */
  dressed: number
  /** Calls that wake a session, and how long it sleeps before its memory is measured. */
  wakes: number
  asleepMs: number
  /** Acquires and releases of a pool's browsers, one after the other; the size of the pool for which many callers wait, and the number of callers. */
  acquires: number
  poolSize: number
  poolCallers: number
  /** Loads of a heavy page for each set of telemetry; console lines whose latency is measured. */
  heavies: number
  lines: number
  /**
   * The numbers of live sessions at which the calls of three replicas are measured, and the calls of each kind; the number of sessions at which scheduled creates are
   * measured, and for how long.
   */
  levels: readonly number[]
  levelCalls: number
  createsAt: number
  createsMs: number
  /** How long idle replicas are measured. */
  restMs: number
  /** Sessions of each form whose density is measured, at most; creates beside them. */
  density: number
  densityCreates: number
}

const FULL: Counts = {
  cold: 15,
  warm: 40,
  lives: 20,
  fives: 4,
  connects: 60,
  gotos: 40,
  screenshots: 30,
  roundTrips: 1000,
  moves: 200,
  clicks: 100,
  positions: 500,
  moveBatches: 50,
  mixedBatches: 30,
  typings: 20,
  callers: 20,
  execs: 200,
  executes: 200,
  spawnedPlaywrights: 10,
  fileMb: 1024,
  files: 4,
  lists: 40,
  recorders: 3,
  recorderMs: 8_000,
  replays: 3,
  replayMs: 20_000,
  viewClicks: 100,
  views: 3,
  viewMs: 5_000,
  deploys: 6,
  invocations: 20,
  follows: 5,
  costs: 3,
  idleMs: 10_000,
  cpuLives: 5,
  rowLives: 60,
  bursts: 4,
  pacedLives: 30,
  learnMs: 60_000,
  stepMs: 60_000,
  quietMs: 60_000,
  dressed: 8,
  wakes: 40,
  asleepMs: 60_000,
  acquires: 100,
  poolSize: 10,
  poolCallers: 100,
  heavies: 8,
  lines: 200,
  levels: [10, 100, 1000, 5000],
  levelCalls: 600,
  createsAt: 1000,
  createsMs: 60_000,
  restMs: 10_000,
  density: 500,
  densityCreates: 10,
}
const QUICK: Counts = {
  cold: 3,
  warm: 5,
  lives: 3,
  fives: 1,
  connects: 10,
  gotos: 5,
  screenshots: 5,
  roundTrips: 500,
  moves: 20,
  clicks: 20,
  positions: 50,
  moveBatches: 5,
  mixedBatches: 3,
  typings: 3,
  callers: 2,
  execs: 20,
  executes: 20,
  spawnedPlaywrights: 2,
  fileMb: 100,
  files: 2,
  lists: 5,
  recorders: 1,
  recorderMs: 8_000,
  replays: 2,
  replayMs: 4_000,
  viewClicks: 20,
  views: 1,
  viewMs: 5_000,
  deploys: 2,
  invocations: 4,
  follows: 2,
  costs: 1,
  idleMs: 3_000,
  cpuLives: 1,
  rowLives: 10,
  bursts: 2,
  pacedLives: 5,
  learnMs: 24_000,
  stepMs: 8_000,
  quietMs: 10_000,
  dressed: 3,
  wakes: 5,
  asleepMs: 30_000,
  acquires: 20,
  poolSize: 3,
  poolCallers: 30,
  heavies: 2,
  lines: 20,
  levels: [10, 100],
  levelCalls: 100,
  createsAt: 100,
  createsMs: 5_000,
  restMs: 2_000,
  density: 3,
  densityCreates: 3,
}

/** @throws ConfigError for a number of sessions that is none, or larger than the most of a full run */
export function countsOf(env: NodeJS.ProcessEnv): Counts {
  const counts = env.BENCH_QUICK === '1' ? QUICK : FULL
  return { ...counts, density: integer(env, 'BENCH_DENSITY', counts.density, 1, FULL.density) }
}
