// Events about the console output of pages and workers, and about uncaught exceptions.
//
// It needs Chromium's Runtime domain, which a page can detect, as it can with Playwright (docs/stealth.md): when an object is logged, its preview reads its
// properties, and a getter notices that. The arguments of a call are available in no other way: the Console domain has only the first one. So the console is
// captured only if a caller asks for it, and a session with stealth should not use it.
import { sleep } from '../../../base/wait.ts'
import { CdpGone } from '../../chromium/cdp.ts'
import type { Protocol } from '../../chromium/cdp-protocol.ts'
import type { Secrets } from '../../../base/redact/redact.ts'
import type { Teller } from '../telemetry.ts'
import { cdpSource, watching, type Collector, type WatchedTarget } from './collector.ts'
import { exceptionText, lengthOf, Lines, stackOf } from './console/text.ts'
import { Share } from './share.ts'
import { CONSOLE_AGAIN_MS, CONSOLE_ANSWER_MS, CONSOLE_A_SECOND, RELEASE_MS } from '../limits.ts'

/** The group of objects that Chromium keeps for readers of the console. They would stay until the page is left. */
const OBJECTS = 'console'

export function consoleCollector(secrets: Secrets): Collector {
  return {
    categories: ['console'],
    types: ['page', 'iframe', 'worker', 'service_worker', 'shared_worker'],
    watch(target, telemetry) {
      const watch = new ConsoleWatch(target, telemetry, secrets)
      return watching(target, { begin: () => watch.begin(), end: () => watch.end(), disable: () => target.session.send('Runtime.disable', {}) })
    },
  }
}

/** The capture of one target. */
class ConsoleWatch {
  readonly #target: WatchedTarget
  readonly #telemetry: Teller
  readonly #secrets: Secrets
  readonly #lines: Lines
  readonly #share: Share<keyof typeof CONSOLE_A_SECOND>
  readonly #listeners: (() => void)[]
  readonly #end = new AbortController()
  /** When the domain is enabled, Chromium first sends earlier output again. */
  #isReplay = true
  /** Time of the last counted line, on Chromium's clock, in milliseconds. */
  #last = Date.now()
  #isPaused = false
  #release: NodeJS.Timeout | undefined

  constructor(target: WatchedTarget, telemetry: Teller, secrets: Secrets) {
    this.#target = target
    this.#telemetry = telemetry
    this.#secrets = secrets
    this.#lines = new Lines(secrets)
    this.#share = new Share('console', target, telemetry, CONSOLE_A_SECOND)
    const { session } = target
    this.#listeners = [
      session.on('Runtime.consoleAPICalled', (event) => this.#called(event)),
      session.on('Runtime.exceptionThrown', (event) => this.#thrown(event)),
    ]
  }

  async begin(): Promise<void> {
    const { session, signal } = this.#target
    this.#isReplay = true
    await session.send('Runtime.enable', {}, { limitMs: CONSOLE_ANSWER_MS, signal })
    this.#isReplay = false
  }

  end(): void {
    this.#end.abort(new CdpGone('the console is not read any more'))
    for (const off of this.#listeners.splice(0)) off()
    clearTimeout(this.#release)
    this.#share.tell()
  }

  /** `length`: its characters. */
  #mayTell(isError: boolean, timestamp: number, length: number): boolean {
    if (this.#isReplay && timestamp <= this.#last) return false
    this.#last = timestamp
    const [isFew, isShort] = [this.#share.fits('all'), this.#share.fits('length', length)]
    const mayTell = !this.#isPaused && isShort && this.#share.fits(isError ? 'errors' : 'lines')
    if (!mayTell) this.#share.lose()
    if (!isFew || !isShort) this.#pause()
    return mayTell
  }

  /**
   * Stops listening to a page with too much output until the next second. Of its output meanwhile, Chromium keeps the last 1,000 lines, which are counted when
   * listening starts again. So the reported number of lost lines is a minimum.
   */
  #pause(): void {
    if (this.#isPaused || this.#end.signal.aborted) return
    const ms = this.#share.leftMs
    this.#isPaused = true
    const { session, signal: gone } = this.#target
    const signal = AbortSignal.any([gone, this.#end.signal])
    let hasFailed = false
    const failed = (step: string) => (error: unknown) => {
      if (signal.aborted || error instanceof CdpGone || hasFailed) return
      hasFailed = true
      this.#telemetry.emit({ type: 'monitor_init_failed', source: cdpSource(step, this.#target.context()), data: { step } })
    }
    const pause = async () => {
      // A page that does not answer is left when possible, and still listened to again.
      await session.send('Runtime.disable', {}, { limitMs: CONSOLE_ANSWER_MS, signal }).catch(failed('Runtime.disable'))
      await sleep(ms, signal)
      while (!(await this.#beginsAgain(failed('Runtime.enable')))) await sleep(CONSOLE_AGAIN_MS, signal)
    }
    pause()
      .catch(failed('Runtime.enable'))
      .finally(() => (this.#isPaused = false))
  }

  async #beginsAgain(failed: (error: unknown) => void): Promise<boolean> {
    try {
      await this.begin()
      return true
    } catch (error) {
      failed(error)
      return false
    }
  }

  #called({ type, args, stackTrace, timestamp }: Protocol.Runtime.ConsoleAPICalledEvent): void {
    if (args.some(({ objectId }) => objectId !== undefined)) this.#releaseSoon()
    const isError = type === 'error'
    if (
      !this.#mayTell(
        isError,
        timestamp,
        args.reduce((sum, arg) => sum + lengthOf(arg), 0),
      )
    )
      return
    const { text, all, isCut } = this.#lines.of(args)
    const context = this.#target.context()
    this.#telemetry.emit({
      type: isError ? 'console_error' : 'console_log',
      source: cdpSource('Runtime.consoleAPICalled', context),
      data: { ...context, level: String(type).slice(0, 32), text, args: all, stack_trace: stackOf(stackTrace, this.#secrets) },
      truncated: isCut,
    })
  }

  #thrown({ timestamp, exceptionDetails: details }: Protocol.Runtime.ExceptionThrownEvent): void {
    if (details.exception?.objectId !== undefined) this.#releaseSoon()
    if (!this.#mayTell(true, timestamp, details.text.length + (details.exception ? lengthOf(details.exception) : 0))) return
    const { text, isCut } = this.#lines.cut(exceptionText(details))
    const context = this.#target.context()
    const from = details.url ?? details.stackTrace?.callFrames[0]?.url
    this.#telemetry.emit({
      type: 'console_error',
      source: cdpSource('Runtime.exceptionThrown', context),
      data: {
        ...context,
        text,
        line: details.lineNumber,
        column: details.columnNumber,
        source_url: from === undefined ? undefined : this.#lines.cut(from).text,
        stack_trace: stackOf(details.stackTrace, this.#secrets),
      },
      truncated: isCut,
    })
  }

  /** The arguments stay in the page's memory as long as their properties could be read. Nobody reads them. */
  #releaseSoon(): void {
    this.#release ??= setTimeout(() => {
      this.#release = undefined
      const { session, signal } = this.#target
      // A page that has ended holds no objects.
      session.send('Runtime.releaseObjectGroup', { objectGroup: OBJECTS }, { signal }).catch(() => {})
    }, RELEASE_MS).unref()
  }
}
