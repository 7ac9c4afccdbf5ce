// Keeps one Chromium running in its session: starts it, restarts it after a crash, and restarts it when a setting needs that.
import { EventEmitter } from 'node:events'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Log } from '../../base/log.ts'
import { Mutex } from '../../base/mutex.ts'
import { sleep, until, within } from '../../base/wait.ts'
import type { Screen } from '../display/screen.ts'
import type { WindowManager } from '../display/windows.ts'
import type { Cdp, CdpSession } from './cdp.ts'
import type { Protocol } from './cdp-protocol.ts'
import { mirrorDownloads } from './downloads.ts'
import { chromiumFlags, DOWNLOADS_DIR, USER_DATA_DIR } from './flags.ts'
import { drawn, watchPaints } from './painted.ts'
import { startChromium, type ChromiumRun } from './process.ts'

/** Debian's Chromium reads managed policies here. In an instance the agent owns the folder. */
const POLICY_DIR = '/etc/chromium/policies/managed'

/**
 * Policies of every session; the session's own policies override them. The warning bar about flags would push every page down. A new tab is empty and
 * focuses its address bar, as people expect; Debian's own new tab page takes the focus away. Downloads go to their folder without a prompt.
 */
const BASE_POLICY = {
  CommandLineFlagSecurityWarningsEnabled: false,
  NewTabPageLocation: 'about:blank',
  DownloadDirectory: DOWNLOADS_DIR,
  PromptForDownloadLocation: false,
  // Pages without TLS may download files, and any page may download several, without a prompt. (The first policy is only about plain HTTP addresses;
  // mixed content on TLS pages stays as it is.)
  InsecureContentAllowedForUrls: ['http://*'],
  DefaultAutomaticDownloadsSetting: 1,
  // Pages may open windows without a user gesture, as in every browser that programs drive.
  DefaultPopupsSetting: 1,
}

/** After more crashes than this within CRASH_WINDOW_MS the session fails: further restarts would only waste CPU. */
const MAX_CRASHES = 5
const CRASH_WINDOW_MS = 60_000

/** A window changes within a few frames; with six browsers starting at once on two cores it took 2 s. */
const WINDOW_MS = 5_000
const WINDOW_TRIES = 3
/** The first frame of a new browser. Six that started at once on two busy cores needed 3 s. */
const DRAWN_MS = 10_000
/** Chromium leaves full screen this long after it entered, when it could not draw until then: 1.48 to 1.57 s were seen. */
const LEAVES_MS = 1_400
/** Frames that took longer than this may have come too late for that. Chromium has left within AGAIN_MS of them. */
const UNDRAWN_MS = 1_000
const AGAIN_MS = 1_000
/** A page learns its size within milliseconds. Longer than the control plane waits for a warm browser, which it replaces when that time is over. */
const SIZED_MS = 15_000
/** Chromium reports within milliseconds that it has begun to load an address. */
const START_PAGE_MS = 5_000
const START_TRIES = 2

/** After a crash, restore the tabs. */
const RESTORE = ['--restore-last-session']

export interface KeeperEvents {
  chromium_crashed: [detail: string]
  chromium_restarted: [detail: string]
  given_up: [detail: string]
}

/** The part of the keeper that tools may use; the fake driver has its own implementation. */
export type Browser = Pick<
  Keeper,
  'run' | 'setPolicy' | 'setFullscreen' | 'fillScreen' | 'fillPage' | 'open' | 'focusPage' | 'painted' | 'withFirstPage' | 'restarts' | 'on' | 'off'
>

/** Owns Chromium. {@link Keeper.run} gives the current run. */
export class Keeper extends EventEmitter<KeeperEvents> {
  readonly #program: string
  readonly #screen: Pick<Screen, 'viewport'>
  readonly #windows: Pick<WindowManager, 'expectNotice' | 'front' | 'caughtUp'>
  readonly #log: Log
  readonly #env: NodeJS.ProcessEnv
  readonly #signal: AbortSignal
  readonly #said: (line: string) => void
  readonly #turns = new Mutex()
  #run: ChromiumRun | undefined
  #closing = false
  #crashes: number[] = []
  #fullscreen = false
  #painted: Promise<((signal: AbortSignal) => Promise<void>) | undefined> = Promise.resolve(undefined)
  /** Settles when the first page has been drawn, or cannot be. */
  #drawn: Promise<void> = Promise.resolve()
  restarts = 0

  constructor(
    program: string,
    screen: Pick<Screen, 'viewport'>,
    windows: Pick<WindowManager, 'expectNotice' | 'front' | 'caughtUp'>,
    env: NodeJS.ProcessEnv,
    log: Log,
    signal: AbortSignal,
    said: (line: string) => void = () => {},
  ) {
    super()
    this.#program = program
    this.#screen = screen
    this.#windows = windows
    this.#env = env
    this.#log = log
    this.#signal = signal
    this.#said = said
  }

  /** The running browser. Waits for a start or restart in progress. */
  async run(): Promise<ChromiumRun> {
    return this.#run ?? (await this.#turns.run(async () => this.#run ?? (await this.#start(this.#crashes.length > 0 ? RESTORE : []))))
  }

  /** Writes managed policies and restarts Chromium: many policies are read only at its start, so a live reload would honour some and not others. */
  async setPolicy(policy: Record<string, unknown>): Promise<void> {
    await this.#turns.run(async () => {
      writePolicy('50-session.json', policy)
      await this.#stop()
      await this.#start([])
    })
  }

  /** Focuses the first page. A new window focuses its address bar, even when the bar is hidden. */
  async focusPage(): Promise<void> {
    await this.withFirstPage((page) => page.send('Page.bringToFront', {}))
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

  /** Sets whether windows fill the screen without tabs and address bar; kept over restarts. @throws when the first page's window does not change */
  async setFullscreen(fullscreen: boolean): Promise<void> {
    this.#fullscreen = fullscreen
    const { pipe, firstPage } = await this.run()
    const { windowId } = await pipe.send('Browser.getWindowForTarget', { targetId: firstPage })
    const windowState = fullscreen ? 'fullscreen' : 'maximized'
    // See #holdFullscreen.
    await this.#drawn
    const attempt = async () => {
      // The window manager tells a new window its state. If that message arrives after ours, the window leaves full screen again, so wait for it first.
      await until('the window to come up', WINDOW_MS, () => this.#windows.front() !== undefined, { everyMs: 3 })
      await this.#windows.caughtUp()
      if (fullscreen) this.#windows.expectNotice()
      await pipe.send('Browser.setWindowBounds', { windowId, bounds: { windowState } })
      await this.#filled(pipe, windowId, windowState)
      await this.#windows.caughtUp()
      await this.#filled(pipe, windowId, windowState)
      if (this.#windows.front()?.fullscreen !== fullscreen) throw new Error(`the window manager does not have the window ${windowState}`)
    }
    await repeated(WINDOW_TRIES, attempt, (err) => this.#log.warn({ err, windowState }, 'the window did not change; trying again'))
  }

  /** Resolves when the first page's window fills the viewport, or the user has given it another size. @throws when it does not */
  async fillScreen(): Promise<void> {
    const { pipe, firstPage } = await this.run()
    const { targetInfos } = await pipe.send('Target.getTargets', {})
    // The user may have closed it.
    if (!targetInfos.some(({ targetId }) => targetId === firstPage)) return
    const { windowId } = await pipe.send('Browser.getWindowForTarget', { targetId: firstPage })
    await this.#filled(pipe, windowId)
  }

  /**
   * Fills the screen with the first page of a new session, which is still empty. Resolves when the page has the size of its window: Chromium tells its
   * pages a moment after it has changed the window, and a start page that opens in between would be laid out below a tab bar that is not there.
   * @throws when the page does not get its size
   */
  async fillPage(fullscreen: boolean): Promise<void> {
    let entered = 0
    const attempt = async () => {
      entered = performance.now()
      if (fullscreen) await this.setFullscreen(true)
      await this.#sized(fullscreen)
    }
    await repeated(WINDOW_TRIES, attempt, (err) => this.#log.warn({ err }, 'the page did not fill its window; trying again'))
    // A caller does not wait for this: nearly always Chromium draws at once.
    if (fullscreen) void this.#holdFullscreen(entered).catch((err: unknown) => this.#log.warn({ err }, 'the window may have left full screen'))
  }

  /**
   * Chromium leaves full screen by itself when it cannot draw for 1.5 s after it entered, as on a machine that is very busy. Then this enters it again,
   * as soon as Chromium draws. A window that a client took out of full screen earlier is left alone.
   */
  async #holdFullscreen(entered: number): Promise<void> {
    const run = await this.run()
    const draws = () =>
      drawn(run.pipe, run.firstPage, DRAWN_MS, this.#log).then(
        () => true,
        () => this.#run !== run || this.#closing, // the page was navigated, or the browser has ended
      )
    await until('a frame in full screen', DRAWN_MS, draws, { everyMs: 50, signal: this.#signal })
    if (performance.now() - entered < UNDRAWN_MS) return
    await sleep(AGAIN_MS, this.#signal)
    const { fullscreen, leftFullscreen } = this.#windows.front() ?? {}
    if (this.#run !== run || fullscreen !== false || leftFullscreen === undefined || leftFullscreen - entered < LEAVES_MS) return
    this.#log.warn({}, 'Chromium could not draw and left full screen; entering it again')
    await this.setFullscreen(true)
  }

  async #sized(fullscreen: boolean): Promise<void> {
    const { width, height } = this.#screen.viewport
    const expression = `innerWidth === ${width} && ${fullscreen ? 'innerHeight' : 'outerHeight'} === ${height}`
    const fits = async (page: CdpSession): Promise<boolean> => {
      if (fullscreen && !this.#windows.front()?.fullscreen) throw new Error('the window has left full screen')
      return (await page.send('Runtime.evaluate', { expression })).result.value === true
    }
    const wait = this.withFirstPage((page) => until('the page to have its size', SIZED_MS, () => fits(page), { everyMs: 3 }))
    await within('the page to have its size', SIZED_MS, wait)
  }

  async #filled(pipe: Cdp, windowId: number, windowState?: string): Promise<void> {
    let found: Protocol.Browser.Bounds = {}
    const fills = async () => {
      found = (await pipe.send('Browser.getWindowBounds', { windowId })).bounds
      const { width, height } = this.#screen.viewport
      // The user has resized the window: leave it.
      if (windowState === undefined && found.windowState !== 'fullscreen' && found.windowState !== 'maximized') return true
      return found.width === width && found.height === height && (windowState === undefined || found.windowState === windowState)
    }
    await until('the window to fill the screen', WINDOW_MS, fills, { everyMs: 3 }).catch((error: unknown) => {
      throw new Error(`the window did not fill the screen: it is ${JSON.stringify(found)}`, { cause: error })
    })
  }

  /** Opens an address in the first page, as if typed by a user. Resolves when Chromium has begun to load it. @throws when it does not begin */
  async open(url: string): Promise<void> {
    await repeated(
      START_TRIES,
      () => this.#begin(url),
      (err) => this.#log.warn({ err }, 'the start page did not begin to load; trying again'),
    )
  }

  async #begin(url: string): Promise<void> {
    await this.focusPage()
    const begun = Promise.withResolvers<void>()
    const work = this.withFirstPage(async (page) => {
      page.on('Page.frameStartedNavigating', () => begun.resolve())
      await page.send('Page.enable', {})
      // Chromium answers when the page has loaded or failed. A failed load (`errorText`) is the page's problem, not an error of this call.
      const { errorText } = await page.send('Page.navigate', { url }).catch((error: Error) => {
        if (error.message.startsWith('Cannot navigate')) return { errorText: error.message }
        throw error
      })
      if (errorText) this.#log.info({ errorText }, 'start_url did not open')
      begun.resolve()
    })
    work.catch((error: unknown) => begun.reject(error))
    await within('the start page to begin', START_PAGE_MS, begun.promise)
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
    writePolicy('00-cob.json', BASE_POLICY)
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
        if (this.#fullscreen) await this.setFullscreen(true)
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

function writePolicy(name: string, policy: object): void {
  mkdirSync(POLICY_DIR, { recursive: true })
  writeFileSync(join(POLICY_DIR, name), JSON.stringify(policy))
}

/** Runs `work` up to `times` times until it succeeds. `onFailure` gets each error but the last, which is thrown. */
async function repeated(times: number, work: () => Promise<void>, onFailure: (error: unknown) => void): Promise<void> {
  for (let left = times - 1; ; left--) {
    try {
      return await work()
    } catch (error) {
      if (left === 0) throw error
      onFailure(error)
    }
  }
}
