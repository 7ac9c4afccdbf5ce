// Keeps one Chromium running in its session: starts it, restarts it after a crash, and restarts it when a setting needs that. The settings are in session/fit.
import { EventEmitter } from 'node:events'
import { mkdirSync, renameSync, rmSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Log } from '../../base/log.ts'
import { Mutex } from '../../base/mutex.ts'
import { resultWithin } from '../../base/wait.ts'
import { fault } from '../../http/fault.ts'
import type { Screen } from '../display/display.ts'
import type { CdpSession } from './cdp.ts'
import { closeStored, closeWhole } from './closing.ts'
import { CurrentDownloads, mirrorDownloads } from './downloads.ts'
import { wasClosed } from './crashed.ts'
import { sessionCookies, setAgain, unwritten, type Cookie } from './cookies.ts'
import { moveToProfile } from './hand-over.ts'
import { chromiumFlags, DOWNLOADS_DIR, RESTORE, shellFlags, STORED_AFTER_MS, USER_DATA_DIR } from './flags.ts'
import { drawn, watchPaints } from './painted.ts'
import { writeBasePolicy } from './policies.ts'
import { startChromium, type ChromiumRun, type Running } from './process.ts'
import { Tabs } from './tabs.ts'
import { read } from './unseen.ts'

/** After more crashes than this within CRASH_WINDOW_MS the session fails: further restarts would only waste CPU. */
const MAX_CRASHES = 5
const CRASH_WINDOW_MS = 60_000

/** Limit on the first frame of a new browser. Six that started at once on two busy cores needed 3 s. */
const DRAWN_MS = 10_000

/** The profile folder of a new Chromium, below the user data directory. */
const FIRST_PROFILE = 'Default'

/** A service worker that a page needs starts within this time, or the page does without it. */
const OPENING_MS = 2_000

/** The result of Chromium's final close. */
export interface Finished {
  /** Whether it has closed its profile itself, with all cookies. Otherwise it crashed, or did not close: then its last changes may be missing. */
  whole: boolean
  version: string
}

export interface KeeperEvents {
  /** Not when a client or the user has closed it. */
  chromium_crashed: [detail: string, pid: number]
  /** After a crash or a close. The start is tried again, or given up. */
  chromium_not_started: []
  chromium_restarted: [detail: string]
  given_up: [detail: string]
}

/** A browser's program, and what it is started with. */
export interface Launch {
  program: string
  env: NodeJS.ProcessEnv
  /** It is the headless shell, and tells pages this. Absent: it is the full browser. */
  lean?: { userAgent: string }
}

interface KeeperSettings {
  launch: Launch
  /** The program of the full browser, which the profile of a lean one may need. */
  full: string
  screen: Pick<Screen, 'viewport'>
  log: Log
  signal: AbortSignal
  /** Gets what Chromium writes. */
  said: (line: string) => void
  /** No Chromium starts before it resolves. */
  begun: Promise<void>
}

/** The part of the keeper for the session and its sockets. The fake driver has its own implementation. */
export interface SessionBrowser
  extends
    Pick<EventEmitter<KeeperEvents>, 'on' | 'off'>,
    Pick<Keeper, 'restart' | 'onRestart' | 'isFinished' | 'isCurrent' | 'painted' | 'restarts' | 'isDownloading' | 'isRecovering'> {
  run(): Promise<Running>
  runForClient(): Promise<Running>
}

/** Owns Chromium. {@link Keeper.run} gives the current run. */
export class Keeper extends EventEmitter<KeeperEvents> {
  readonly #settings: KeeperSettings
  #launch: Launch
  readonly #log: Log
  readonly #turns = new Mutex()
  readonly #onRestart: (() => Promise<void>)[] = []
  readonly #downloads = new CurrentDownloads()
  /** Of a lean browser, which saves no tabs itself. */
  readonly #tabs = new Tabs()
  #recovering = false
  #run: ChromiumRun | undefined
  /** Resolves when the earlier profile is completely closed; before the first start, when that may begin. */
  #settled: Promise<void>
  /** Resolves when the start page has opened, or after OPENING_MS. Never rejects. */
  #opening: Promise<unknown> = Promise.resolve()
  #closing = false
  #asPerson = false
  /** Flags of a lean browser that name its proxy: those that it should have, and those of the present run. */
  #proxy: readonly string[] = []
  #proxyOfRun: readonly string[] = []
  #finished: Promise<Finished> | undefined
  #profile = FIRST_PROFILE
  #version = ''
  #crashes: number[] = []
  #painted: Promise<((signal: AbortSignal) => Promise<void>) | undefined> = Promise.resolve(undefined)
  /** Settles when the first page has been drawn, or cannot be. */
  #drawn: Promise<void> = Promise.resolve()
  restarts = 0

  constructor(settings: KeeperSettings) {
    super()
    this.#settings = settings
    this.#settled = settings.begun
    this.#launch = settings.launch
    this.#log = settings.log
  }

  /** The running browser. Waits for a start or restart in progress, and for pages of an earlier profile to close. */
  async run(): Promise<ChromiumRun> {
    await this.#settled
    return this.#run ?? (await this.#turns.run(async () => this.#run ?? (await this.#start(this.#crashes.length > 0 ? [RESTORE] : []))))
  }

  /**
   * The running browser for a client that connects. Waits for a page that is just opening, at most `patienceMs`. A client that attaches while the page's
   * service worker starts would cause a deadlock: the worker waits for the client, the page waits for the worker, and the client's commands wait for the page.
   */
  async runForClient(patienceMs = OPENING_MS): Promise<ChromiumRun> {
    await this.run()
    await resultWithin(patienceMs, this.#opening)
    return this.run()
  }

  /** Records that a page is opening until `opened` settles. */
  opens(opened: Promise<unknown>): void {
    this.#opening = resultWithin(OPENING_MS, opened).catch(() => {})
  }

  /** Whether this run of Chromium is the present one. */
  isCurrent(run: Running): boolean {
    return this.#run === run && !this.#closing
  }

  /**
   * Restarts Chromium with an empty page, for settings that it reads only at its start. `asPerson`: from now on, it is started as a person starts it. Resolves
   * after the work of {@link onRestart}.
   */
  async restart({ asPerson = this.#asPerson } = {}): Promise<void> {
    await this.#turns.run(async () => {
      this.#asPerson = asPerson
      await this.#stop()
      await this.#start([])
    })
    await this.#restarted()
  }

  /**
   * Starts another browser with the same profile in place of a lean one. `between` runs while no browser does, and returns its undo. Resolves after the work of
   * {@link onRestart}. @throws 503; then the lean one has started again
   */
  async replace(launch: Launch, between: () => Promise<() => Promise<void>>): Promise<void> {
    await this.#turns.run(() => this.#startAgain(launch, between))
    await this.#restarted()
  }

  /** The proxy that a lean browser should have, as flags. */
  useProxy(flags: readonly string[]): void {
    this.#proxy = flags
  }

  /** Starts a lean browser again if it has another proxy than it should. The full one reads a policy meanwhile. */
  async followProxy(): Promise<void> {
    const isOther = () => this.#launch.lean !== undefined && String(this.#proxyOfRun) !== String(this.#proxy)
    if (!isOther()) return
    await this.#turns.run(async () => (isOther() ? this.#startAgain(this.#launch, async () => async () => {}) : undefined))
    await this.#restarted()
  }

  /** Starts a browser in place of a lean one. It has the cookies of that one, and opens its tabs again at their addresses. @throws as {@link replace} */
  async #startAgain(launch: Launch, between: () => Promise<() => Promise<void>>): Promise<void> {
    this.#assertOpen()
    const former = this.#launch
    const tabs = this.#tabs.open
    const cookies = await this.#closeForNext(tabs.length > 0)
    let undo: (() => Promise<void>) | undefined
    try {
      undo = await between()
      this.#launch = launch
      await this.#start([], cookies)
    } catch (error) {
      await this.#stop()
      await undo?.()
      this.#launch = former
      await this.#start([RESTORE], cookies)
      throw fault.unavailable('the browser did not start again', error)
    }
    await this.#tabs.reopen(this.#run!, tabs, this.#log)
  }

  /**
   * Closes Chromium so that the next one finds what pages have stored; a browser without pages has not stored anything lately. Returns the cookies that are not
   * in the profile: those of the browser's session.
   */
  async #closeForNext(hasPages: boolean): Promise<Cookie[]> {
    const run = this.#run
    if (!run) return []
    this.#run = undefined
    const { known } = await closeStored(run, hasPages ? STORED_AFTER_MS : 0, this.#settings)
    try {
      return known ? unwritten(join(USER_DATA_DIR, this.#profile), known) : []
    } catch (err) {
      this.#log.warn({ err }, "the profile's cookies cannot be read")
      return known?.cookies ?? []
    }
  }

  /** Whether Chromium is started as a person starts it: the session has stealth. */
  get asPerson(): boolean {
    return this.#asPerson
  }

  /** The folder of the profile in use, below the user data directory. */
  get profile(): string {
    return this.#profile
  }

  /**
   * Opens another profile in the running Chromium, and closes the earlier pages; {@link run} waits for that. If Chromium does not open it, or is down just now,
   * it is started with it. `keepTabs`: opens the profile's tabs. Resolves after the work of {@link onRestart}. @throws 503; then the earlier profile stays
   */
  async changeProfile(folder: string, keepTabs: boolean): Promise<void> {
    await this.#turns.run(async () => {
      this.#assertOpen()
      const before = this.#profile
      try {
        if (this.#launch.lean) return await this.#startWith(folder)
        const moved = this.#run && (await this.#moved(this.#run, folder, keepTabs ? [] : ['about:blank']))
        this.#profile = folder
        if (moved) return
        await this.#stop()
        await this.#start([])
      } catch (error) {
        this.#profile = before
        throw fault.unavailable('the browser did not open the profile', error)
      }
    })
    await this.#restarted()
  }

  /**
   * Starts a lean browser with another profile. It knows only one folder, so the profile is moved there. It opens no tabs of a profile, and forgets the cookies of
   * the earlier browser's session, which it is told. @throws when it does not start; then the earlier profile is back
   */
  async #startWith(folder: string): Promise<void> {
    const [wanted, own, aside] = [folder, FIRST_PROFILE, `${FIRST_PROFILE} before`].map((name) => join(USER_DATA_DIR, name)) as [string, string, string]
    const cookies = sessionCookies(wanted, this.#log)
    await this.#stop()
    renameSync(own, aside)
    try {
      renameSync(wanted, own)
      await this.#start([], cookies)
    } catch (error) {
      await this.#stop()
      rmSync(own, { recursive: true, force: true })
      renameSync(aside, own)
      await this.#start([])
      throw error
    }
    await rm(aside, { recursive: true, force: true }).catch((err: unknown) => this.#log.warn({ err }, 'the earlier profile could not be removed'))
  }

  /** Whether the profile has the tabs of the browser. */
  get savesTabs(): boolean {
    return this.#launch.lean === undefined
  }

  /** Whether Chromium has opened the profile. */
  async #moved(run: ChromiumRun, folder: string, urls: readonly string[]): Promise<boolean> {
    try {
      const { page, settled } = await moveToProfile(run.pipe, join(USER_DATA_DIR, 'SingletonSocket'), folder, urls, this.#log)
      run.firstPage = page
      this.#settled = settled
      if (urls.length === 0) this.opens(answer(run, page))
    } catch (err) {
      this.#log.warn({ err }, 'the running Chromium did not open a profile; starting it with that')
      return false
    }
    this.#watchFirstFrame(run)
    return true
  }

  /**
   * Adds work for each restart of Chromium, also after a crash, and for each change of the profile. The restart is reported when the work has resolved. If the
   * work rejects, a {@link restart} fails; after a crash the work is retried as often as Chromium is.
   */
  onRestart(work: () => Promise<void>): void {
    this.#onRestart.push(work)
  }

  async #restarted(): Promise<void> {
    for (const work of this.#onRestart) await work()
  }

  /** Whether Chromium has crashed or was closed, and is not restored yet. */
  get isRecovering(): boolean {
    return this.#recovering
  }

  /** Whether a download is running. */
  get isDownloading(): boolean {
    return this.#downloads.any
  }

  /** Resolves when the first page of the current run has been drawn for the first time, or cannot be drawn. */
  firstDrawn(): Promise<void> {
    return this.#drawn
  }

  /** Resolves when recently navigated pages have been painted, so that they take input. Bounded; does not wait for a browser that is down. */
  async painted(signal: AbortSignal): Promise<void> {
    await (
      await this.#painted
    )?.(signal)
  }

  /** Runs `work` on the first page, in a separate CDP session. */
  async withFirstPage(work: (page: CdpSession) => Promise<unknown>): Promise<void> {
    const { pipe, firstPage } = await this.run()
    await using page = await pipe.session(firstPage)
    await work(page)
  }

  /** Closes Chromium for good, so that its profile can be saved. Every call has the same result. */
  finish(): Promise<Finished> {
    this.#closing = true
    this.#finished ??= this.#turns.run(async () => {
      const run = this.#run
      this.#run = undefined
      // A browser that restarts after a crash is not complete yet.
      const isWhole = run !== undefined && !this.#recovering
      const hasClosed =
        run !== undefined && (await closeWhole(run, join(USER_DATA_DIR, this.#profile), this.#settings, (userDataDir) => this.#startAside(userDataDir)))
      return { whole: hasClosed && isWhole, version: this.#version }
    })
    return this.#finished
  }

  /** Starts the full browser with another user data directory, beside or after that of the session. */
  #startAside(userDataDir: string): Promise<ChromiumRun> {
    const { full, screen, log, signal, said } = this.#settings
    const extra = [`--user-data-dir=${userDataDir}`, '--disable-extensions', ...(this.#launch.lean ? ['--headless=new'] : [])]
    return startChromium(full, chromiumFlags(screen.viewport, this.#asPerson, extra), this.#launch.env, log, signal, said)
  }

  /** Whether Chromium has been, or is being, closed for good. */
  get isFinished(): boolean {
    return this.#finished !== undefined
  }

  #assertOpen(): void {
    if (this.#closing) throw fault.unavailable('the session ends, and its browser has been closed')
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

  /** `cookies`: those that are not in its profile. */
  async #start(extra: readonly string[], cookies: readonly Cookie[] = []): Promise<ChromiumRun> {
    this.#assertOpen()
    const { program, env, lean } = this.#launch
    mkdirSync(USER_DATA_DIR, { recursive: true })
    writeBasePolicy()
    // Remove the lock of a killed Chromium. Nobody else can hold the profile, because it is inside this instance.
    for (const lock of ['SingletonLock', 'SingletonSocket', 'SingletonCookie']) rmSync(join(USER_DATA_DIR, lock), { force: true })
    const more = this.#profile === FIRST_PROFILE ? extra : [`--profile-directory=${this.#profile}`, ...extra]
    const proxy = this.#proxy
    const flags = lean ? shellFlags(this.#settings.screen.viewport, lean.userAgent, proxy) : chromiumFlags(this.#settings.screen.viewport, this.#asPerson, more)
    const run = await startChromium(program, flags, env, this.#log, this.#settings.signal, this.#settings.said)
    this.#run = run
    this.#proxyOfRun = proxy
    this.#version = run.version
    await setAgain(run.pipe, cookies, this.#log)
    if (lean) {
      // The full browser lets a page that was clicked write to the clipboard.
      await run.pipe.send('Browser.setPermission', { permission: { name: 'clipboard-write' }, setting: 'granted' })
      const tabs = this.#tabs.last
      this.#tabs.follow(run)
      if (extra.includes(RESTORE)) await this.#tabs.reopen(run, tabs, this.#log)
    }
    mirrorDownloads(run.pipe, DOWNLOADS_DIR, this.#downloads, this.#log, lean !== undefined).catch((err: unknown) =>
      this.#log.warn({ err }, 'Chromium does not report downloads'),
    )
    this.#painted = watchPaints(run.pipe, this.#log).catch((err: unknown) => {
      this.#log.warn({ err }, 'Chromium does not report navigations; input does not wait for first frames')
      return undefined
    })
    this.#watchFirstFrame(run)
    if (extra.includes(RESTORE)) this.opens(answer(run, run.firstPage))
    void run.exited.then((exit) => this.#onExit(run, exit))
    return run
  }

  #watchFirstFrame(run: ChromiumRun): void {
    this.#drawn = drawn(run.pipe, run.firstPage, DRAWN_MS, this.#log).catch((err: unknown) => this.#log.info({ err }, 'the first page was not drawn'))
  }

  async #onExit(run: ChromiumRun, exit: { code: number | null; signal: string | null }): Promise<void> {
    if (this.#run !== run || this.#closing || this.#settings.signal.aborted) return
    this.#run = undefined
    this.#recovering = true
    const detail = wasClosed(exit) ? 'was closed by a client or on its screen' : `ended with ${exit.signal ?? exit.code}`
    if (wasClosed(exit)) this.#log.info({ pid: run.pid }, 'Chromium was closed by a client or on its screen; starting it again')
    else {
      this.#log.error({ pid: run.pid, ...exit }, 'Chromium ended by itself; starting it again')
      this.emit('chromium_crashed', detail, run.pid)
    }
    while (this.#mayRestart()) {
      try {
        // A caller may already have restarted it.
        const { pid } = await this.#turns.run(async () => this.#run ?? (await this.#start([RESTORE])))
        this.restarts++
        await this.#restarted()
        this.#recovering = false
        this.#log.info({ pid }, 'Chromium is back')
        this.emit('chromium_restarted', detail)
        return
      } catch (err) {
        // The agent ends. That is no failure of Chromium.
        if (this.#closing || this.#settings.signal.aborted) return
        this.#log.error({ err }, 'Chromium did not start again')
        this.emit('chromium_not_started')
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

/** Resolves when a restored page answers. It does not before its server does. */
async function answer({ pipe }: ChromiumRun, page: string): Promise<void> {
  await using session = await pipe.session(page)
  await read(session, '1', { limitMs: OPENING_MS })
}
