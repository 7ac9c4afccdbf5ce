// Keeps one Chromium running in its session: starts it, restarts it after a crash, and restarts it when a setting needs that. What the settings are
// is in session/fit.
import { EventEmitter } from 'node:events'
import { mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Log } from '../../base/log.ts'
import { Mutex } from '../../base/mutex.ts'
import type { Screen } from '../display/screen.ts'
import type { CdpSession } from './cdp.ts'
import { mirrorDownloads } from './downloads.ts'
import { chromiumFlags, DOWNLOADS_DIR, USER_DATA_DIR } from './flags.ts'
import { drawn, watchPaints } from './painted.ts'
import { writeBasePolicy } from './policies.ts'
import { startChromium, type ChromiumRun } from './process.ts'

/** After more crashes than this within CRASH_WINDOW_MS the session fails: further restarts would only waste CPU. */
const MAX_CRASHES = 5
const CRASH_WINDOW_MS = 60_000

/** The first frame of a new browser. Six that started at once on two busy cores needed 3 s. */
const DRAWN_MS = 10_000

/** After a crash, restore the tabs. */
const RESTORE = ['--restore-last-session']

export interface KeeperEvents {
  chromium_crashed: [detail: string]
  chromium_restarted: [detail: string]
  given_up: [detail: string]
}

/** The part of the keeper that tools may use; the fake driver has its own implementation. */
export type Browser = Pick<Keeper, 'run' | 'restart' | 'onRestart' | 'isCurrent' | 'firstDrawn' | 'painted' | 'withFirstPage' | 'restarts' | 'on' | 'off'>

/** Owns Chromium. {@link Keeper.run} gives the current run. */
export class Keeper extends EventEmitter<KeeperEvents> {
  readonly #program: string
  readonly #screen: Pick<Screen, 'viewport'>
  readonly #log: Log
  readonly #env: NodeJS.ProcessEnv
  readonly #signal: AbortSignal
  readonly #said: (line: string) => void
  readonly #turns = new Mutex()
  readonly #onRestart: (() => Promise<void>)[] = []
  #run: ChromiumRun | undefined
  #closing = false
  #crashes: number[] = []
  #painted: Promise<((signal: AbortSignal) => Promise<void>) | undefined> = Promise.resolve(undefined)
  /** Settles when the first page has been drawn, or cannot be. */
  #drawn: Promise<void> = Promise.resolve()
  restarts = 0

  constructor(
    program: string,
    screen: Pick<Screen, 'viewport'>,
    env: NodeJS.ProcessEnv,
    log: Log,
    signal: AbortSignal,
    said: (line: string) => void = () => {},
  ) {
    super()
    this.#program = program
    this.#screen = screen
    this.#env = env
    this.#log = log
    this.#signal = signal
    this.#said = said
  }

  /** The running browser. Waits for a start or restart in progress. */
  async run(): Promise<ChromiumRun> {
    return this.#run ?? (await this.#turns.run(async () => this.#run ?? (await this.#start(this.#crashes.length > 0 ? RESTORE : []))))
  }

  /** Whether Chromium still is in this run. */
  isCurrent(run: ChromiumRun): boolean {
    return this.#run === run && !this.#closing
  }

  /** Restarts Chromium with an empty page, for settings that it reads only at its start. Resolves after the work of {@link onRestart}. */
  async restart(): Promise<void> {
    await this.#turns.run(async () => {
      await this.#stop()
      await this.#start([])
    })
    await this.#restarted()
  }

  /**
   * Adds work that each restart of Chromium needs, after a crash as well. The restart is reported when the work has resolved. When it rejects, a
   * {@link restart} fails; after a crash the work is tried again, as often as Chromium is.
   */
  onRestart(work: () => Promise<void>): void {
    this.#onRestart.push(work)
  }

  async #restarted(): Promise<void> {
    for (const work of this.#onRestart) await work()
  }

  /** Resolves when the first page of the current run has been drawn for the first time, or cannot be. */
  firstDrawn(): Promise<void> {
    return this.#drawn
  }

  /** Resolves when recently navigated pages have been painted, so that they take input. Bounded; does not wait for a browser that is down. */
  async painted(signal: AbortSignal): Promise<void> {
    await (
      await this.#painted
    )?.(signal)
  }

  /** Runs `work` on the first page, in a CDP session of its own. */
  async withFirstPage(work: (page: CdpSession) => Promise<unknown>): Promise<void> {
    const { pipe, firstPage } = await this.run()
    await using page = await pipe.session(firstPage)
    await work(page)
  }

  /** Ends Chromium for good. */
  async close(): Promise<void> {
    this.#closing = true
    await this.#turns.run(() => this.#stop())
  }

  async #stop(): Promise<void> {
    const run = this.#run
    this.#run = undefined
    await run?.close()
  }

  async #start(extra: readonly string[]): Promise<ChromiumRun> {
    mkdirSync(USER_DATA_DIR, { recursive: true })
    writeBasePolicy()
    // Remove the lock of a killed Chromium. Nobody else can hold the profile, because it is inside this instance.
    for (const lock of ['SingletonLock', 'SingletonSocket', 'SingletonCookie']) rmSync(join(USER_DATA_DIR, lock), { force: true })
    const run = await startChromium(this.#program, chromiumFlags(this.#screen.viewport, extra), this.#env, this.#log, this.#signal, this.#said)
    this.#run = run
    mirrorDownloads(run.pipe, DOWNLOADS_DIR, this.#log).catch((err: unknown) => this.#log.warn({ err }, 'Chromium does not report downloads'))
    this.#painted = watchPaints(run.pipe, this.#log).catch((err: unknown) => {
      this.#log.warn({ err }, 'Chromium does not report navigations; input does not wait for first frames')
      return undefined
    })
    this.#drawn = drawn(run.pipe, run.firstPage, DRAWN_MS, this.#log).catch((err: unknown) => this.#log.info({ err }, 'the first page was not drawn'))
    void run.exited.then((exit) => this.#onExit(run, exit))
    return run
  }

  async #onExit(run: ChromiumRun, exit: { code: number | null; signal: string | null }): Promise<void> {
    if (this.#run !== run || this.#closing) return
    this.#run = undefined
    const detail = `ended with ${exit.signal ?? exit.code}`
    this.#log.error({ pid: run.pid, ...exit }, 'Chromium ended by itself; starting it again')
    this.emit('chromium_crashed', detail)
    while (this.#mayRestart()) {
      try {
        // A caller may have restarted it already.
        const { pid } = await this.#turns.run(async () => this.#run ?? (await this.#start(RESTORE)))
        this.restarts++
        await this.#restarted()
        this.#log.info({ pid }, 'Chromium is back')
        this.emit('chromium_restarted', detail)
        return
      } catch (err) {
        if (this.#closing) return
        this.#log.error({ err }, 'Chromium did not start again')
      }
    }
    this.emit('given_up', `Chromium ended ${MAX_CRASHES + 1} times within ${CRASH_WINDOW_MS / 1000} s`)
  }

  /** Records a crash; false when there were too many recently. */
  #mayRestart(): boolean {
    const now = performance.now()
    this.#crashes = [...this.#crashes.filter((at) => now - at < CRASH_WINDOW_MS), now]
    return this.#crashes.length <= MAX_CRASHES
  }
}
