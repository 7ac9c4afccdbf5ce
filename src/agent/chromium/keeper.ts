// Keeps one Chromium alive in its session: starts it, starts it again when it crashes, restarts it when it must be.
import { EventEmitter } from 'node:events'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Log } from '../../base/log.ts'
import { Mutex } from '../../base/mutex.ts'
import { until, within } from '../../base/wait.ts'
import type { Screen } from '../display/screen.ts'
import type { WindowManager } from '../display/windows.ts'
import { mirrorDownloads } from './downloads.ts'
import { chromiumFlags, DOWNLOADS_DIR, USER_DATA_DIR } from './flags.ts'
import { watchPaints } from './painted.ts'
import type { CdpPipe } from './pipe.ts'
import { startChromium, type ChromiumRun } from './process.ts'

/** Where Debian's Chromium reads managed policies. In an instance the folder is the agent's. */
const POLICY_DIR = '/etc/chromium/policies/managed'

/**
 * Policies of every session; a session's own come on top. The warning bar about flags would push every page down. A new tab
 * is empty and has its address bar in focus, as people expect; Debian's own new tab page takes the focus away. Downloads go to
 * their folder and nobody is asked where to.
 */
const BASE_POLICY = {
  CommandLineFlagSecurityWarningsEnabled: false,
  NewTabPageLocation: 'about:blank',
  DownloadDirectory: DOWNLOADS_DIR,
  PromptForDownloadLocation: false,
  // Pages without TLS may bring files, and pages more than one, as if somebody had said yes each time. (The first is about
  // pages of such addresses only; what a page with TLS may load stays as it is.)
  InsecureContentAllowedForUrls: ['http://*'],
  DefaultAutomaticDownloadsSetting: 1,
  // Pages open windows without a click of somebody, as they may in every browser that programs drive.
  DefaultPopupsSetting: 1,
}

/** More crashes than this within the time, and the session is given up: it would only burn the machine. */
const MAX_CRASHES = 5
const CRASH_WINDOW_MS = 60_000

/** A window changes within some frames; while six browsers started at once on two cores it took 2 s. */
const WINDOW_MS = 5_000
const WINDOW_TRIES = 3
/** Chromium says within milliseconds that it has begun to open an address. */
const START_PAGE_MS = 5_000
const START_TRIES = 2

/** After a crash the tabs come back. */
const RESTORE = ['--restore-last-session']

export interface KeeperEvents {
  chromium_crashed: [detail: string]
  chromium_restarted: [detail: string]
  given_up: [detail: string]
}

/** What tools may do with Chromium; the fake driver has one of its own. */
export type Browser = Pick<
  Keeper,
  'run' | 'setPolicy' | 'setFullscreen' | 'fillScreen' | 'open' | 'focusPage' | 'painted' | 'withFirstPage' | 'restarts' | 'on' | 'off'
>

/** Owns Chromium. {@link Keeper.run} is the one that runs now. */
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

  /** The browser, once it is up: waits for a restart that is under way. */
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

  /** Gives the keyboard to the first page: a new window's belongs to its address bar, also where nobody sees that. */
  async focusPage(): Promise<void> {
    await this.withFirstPage((pipe, sessionId) => pipe.send('Page.bringToFront', {}, sessionId))
  }

  /** Resolves when pages take input: those that were navigated lately have been painted. Bounded; a browser that is away is not waited for. */
  async painted(signal: AbortSignal): Promise<void> {
    await (
      await this.#painted
    )?.(signal)
  }

  /** Does something with the first page over a session of its own. */
  async withFirstPage(work: (pipe: CdpPipe, sessionId: string) => Promise<unknown>): Promise<void> {
    const { pipe, firstPage } = await this.run()
    const { sessionId } = await pipe.send<{ sessionId: string }>('Target.attachToTarget', { targetId: firstPage, flatten: true })
    try {
      await work(pipe, sessionId)
    } finally {
      await pipe.send('Target.detachFromTarget', { sessionId })
    }
  }

  /** Whether windows fill the screen without tabs and address bar; kept over restarts. @throws when the first page's window does not become so */
  async setFullscreen(fullscreen: boolean): Promise<void> {
    this.#fullscreen = fullscreen
    const { pipe, firstPage } = await this.run()
    const { windowId } = await pipe.send<{ windowId: number }>('Browser.getWindowForTarget', { targetId: firstPage })
    const windowState = fullscreen ? 'fullscreen' : 'maximized'
    const attempt = async () => {
      // A window that is just coming up is told its state by the window manager; hearing of an earlier one it would leave full screen again.
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

  /** Resolves when the first page's window, unless its user gave it another size, fills the viewport. @throws when it does not */
  async fillScreen(): Promise<void> {
    const { pipe, firstPage } = await this.run()
    const { targetInfos } = await pipe.send<{ targetInfos: { targetId: string }[] }>('Target.getTargets')
    // Its user may have closed it.
    if (!targetInfos.some(({ targetId }) => targetId === firstPage)) return
    const { windowId } = await pipe.send<{ windowId: number }>('Browser.getWindowForTarget', { targetId: firstPage })
    await this.#filled(pipe, windowId)
  }

  async #filled(pipe: CdpPipe, windowId: number, windowState?: string): Promise<void> {
    let found: { width?: number; height?: number; windowState?: string } = {}
    const fills = async () => {
      found = (await pipe.send<{ bounds: typeof found }>('Browser.getWindowBounds', { windowId })).bounds
      const { width, height } = this.#screen.viewport
      // A window that its user has given another size has nothing to fill.
      if (windowState === undefined && found.windowState !== 'fullscreen' && found.windowState !== 'maximized') return true
      return found.width === width && found.height === height && (windowState === undefined || found.windowState === windowState)
    }
    await until('the window to fill the screen', WINDOW_MS, fills, { everyMs: 3 }).catch((error: unknown) => {
      throw new Error(`the window did not fill the screen: it is ${JSON.stringify(found)}`, { cause: error })
    })
  }

  /** Opens an address in the first page as a user does who typed it, and resolves when Chromium has begun to. @throws when it does not begin */
  async open(url: string): Promise<void> {
    await repeated(
      START_TRIES,
      () => this.#begin(url),
      (err) => this.#log.warn({ err }, 'the start page was not begun; trying again'),
    )
  }

  async #begin(url: string): Promise<void> {
    await this.focusPage()
    const begun = Promise.withResolvers<void>()
    const work = this.withFirstPage(async (pipe, sessionId) => {
      const leave = pipe.on((event) => {
        if (event.sessionId === sessionId && event.method === 'Page.frameStartedNavigating') begun.resolve()
      })
      try {
        await pipe.send('Page.enable', {}, sessionId)
        // Answered when the page is there, or is known not to come: then it says why, which is the page's affair.
        const { errorText } = await pipe.send<{ errorText?: string }>('Page.navigate', { url }, sessionId).catch((error: Error) => {
          if (error.message.startsWith('Cannot navigate')) return { errorText: error.message }
          throw error
        })
        if (errorText) this.#log.info({ errorText }, 'start_url did not open')
        begun.resolve()
      } finally {
        leave()
      }
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
    // A lock of a Chromium that was killed; nobody else can hold the profile, for it is inside this instance.
    for (const lock of ['SingletonLock', 'SingletonSocket', 'SingletonCookie']) rmSync(join(USER_DATA_DIR, lock), { force: true })
    const run = await startChromium(this.#program, chromiumFlags(this.#screen.viewport, extra), this.#env, this.#log, this.#signal, this.#said)
    this.#run = run
    mirrorDownloads(run.pipe, DOWNLOADS_DIR, this.#log).catch((err: unknown) => this.#log.warn({ err }, 'Chromium does not tell of downloads'))
    this.#painted = watchPaints(run.pipe, this.#log).catch((err: unknown) => {
      this.#log.warn({ err }, 'Chromium does not tell of navigations; input does not wait for first frames')
      return undefined
    })
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
        // A caller may have come first and started it already.
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

  /** Notes a crash; false when there have been too many lately. */
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

/** Does something up to `times` times until it works; `onFailure` hears of each failure but the last, which is thrown. */
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
