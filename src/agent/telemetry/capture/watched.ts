// One watched target: its address, its collectors, and the data that they may report. attachment.ts adds and removes targets.
import { performance } from 'node:perf_hooks'
import type { Log } from '../../../base/log.ts'
import { resultWithin, within, WaitTimeout } from '../../../base/wait.ts'
import { CdpGone, CdpRefusal, type CdpSession } from '../../chromium/cdp.ts'
import type { Protocol } from '../../chromium/cdp-protocol.ts'
import type { Teller } from '../telemetry.ts'
import type { Collector, Context, WatchedTarget } from './collector.ts'
import type { Secrets } from '../../../base/redact/redact.ts'
import { Share } from './share.ts'
import { withhold } from './withheld.ts'
import { worldOf } from './world.ts'
import { BEGIN_AGAIN_MS, MAX_RAW_URL, MAX_URL, START_MS, STOP_MS } from '../limits.ts'

/** Pages of Chromium itself and of extensions. They make no events. */
const INTERNAL = /^(?:chrome|chrome-extension|chrome-search|chrome-untrusted|chrome-error|devtools|edge):/i

export const isInternal = (url: string): boolean => INTERNAL.test(url)

/** The parts of a target. */
export interface WatchedParts {
  session: CdpSession
  sessionId: string
  type: Context['target_type']
  url: string
  /** Whether it had loaded something before it was watched. */
  isOld: boolean
  telemetry: Teller
  secrets: Secrets
  log: Log
}

interface Work {
  /** The function that ends the collector. Undefined when it did not start. */
  started: Promise<(() => Promise<void>) | undefined>
  end: AbortController
}

export class Watched {
  readonly type: Context['target_type']
  readonly session: CdpSession
  readonly #parts: WatchedParts
  readonly #telemetry: Teller
  #collectors: readonly Collector[] = []
  readonly #working = new Map<Collector, Work>()
  /** Collectors that have started. */
  readonly #running = new Set<Collector>()
  /** Collectors whose failure was reported, once for each document. */
  readonly #failed = new Set<Collector>()
  #again: NodeJS.Timeout | undefined
  /** Aborts when the target has ended, or is not watched any more. */
  readonly #end = new AbortController()
  #internal: boolean
  readonly #context: Context
  /** Its address, with secrets of this version masked. */
  #url = { text: '', isCut: false, version: 0 }

  constructor(parts: WatchedParts) {
    const { sessionId, type, url, isOld, telemetry } = parts
    const session = this.#carefully(parts)
    this.#parts = { ...parts, session }
    this.type = type
    this.session = session
    this.#internal = isInternal(url)
    this.#context = { target_id: session.targetId, target_type: type, session_id: sessionId }
    if (type === 'page' || type === 'iframe') this.#context.frame_id = session.targetId
    if (isOld && type === 'page') this.#context.nav_seq = 1
    this.#moveTo(url)
    // Events about Chromium's own pages are left out.
    this.#telemetry = {
      captures: (category) => !this.#internal && telemetry.captures(category),
      emit: (event) => {
        if (!this.#internal) telemetry.emit(this.#mayMissPasswords ? withhold(event) : event)
      },
    }
    this.#losses = new Share('unreadable', { context: () => this.#context, signal: this.#end.signal }, telemetry)
    session.detached.addEventListener('abort', () => this.#abort(), { once: true })
    if (session.detached.aborted) this.#abort()
    if (type === 'page' || type === 'iframe') this.#followPage(isOld)
  }

  readonly #losses: Share

  /**
   * The session, with listeners that may throw: events of Chromium about a page may be malformed, because pages can take over their renderer. These count as
   * lost.
   */
  #carefully({ session, log }: WatchedParts): CdpSession {
    const on: CdpSession['on'] = (event, listener) =>
      session.on(event, (params) => {
        try {
          listener(params)
        } catch (err) {
          log.debug({ err, event }, 'telemetry could not read an event')
          this.#losses.lose()
        }
      })
    return { ...session, on }
  }

  /** Whether a password may be typed here without being learned. */
  get #mayMissPasswords(): boolean {
    const { session } = this
    return this.#collectors.some((collector) => collector.isGuard && !this.#running.has(collector)) || worldOf({ session }).isBehind
  }

  /** Its listeners come before those of collectors, so that collectors find the right context of an event. */
  #followPage(isOld: boolean): void {
    const { session, log } = this.#parts
    session.on('Page.frameNavigated', ({ frame }) => {
      if (frame.id !== session.targetId) return
      this.#context.nav_seq = (this.#context.nav_seq ?? 0) + 1
      this.#context.loader_id = text(frame.loaderId, 64)
      this.#moveTo(addressOf(frame))
      this.#failed.clear()
      // A page that hung at the start of a collector may have been replaced.
      this.#beginMissing()
    })
    session.on('Page.navigatedWithinDocument', ({ frameId, url }) => {
      if (frameId === session.targetId) this.#moveTo(text(url, MAX_RAW_URL))
    })
    session.send('Page.enable', {}, { limitMs: START_MS }).catch((error: unknown) => {
      if (!this.isGone && !(error instanceof CdpGone)) this.fail(stepOf(error), error)
    })
    if (!isOld) return
    const before = this.#context.nav_seq
    session
      .send('Page.getFrameTree', {}, { limitMs: START_MS })
      .then(({ frameTree: { frame } }) => {
        if (this.#context.nav_seq !== before || frame.id !== session.targetId) return
        this.#context.loader_id = text(frame.loaderId, 64)
        this.#moveTo(addressOf(frame))
      })
      .catch((err: unknown) => log.debug({ err }, 'a page did not say where it is'))
  }

  #beginMissing(): void {
    if (!this.isGone && this.#collectors.some((collector) => !this.#working.has(collector))) void this.use(this.#collectors)
  }

  #moveTo(url: string): void {
    this.#internal = isInternal(url)
    const { secrets } = this.#parts
    this.#url = { ...secrets.scrubCut(url, MAX_URL), version: secrets.version }
    this.#context.url = this.#url.text
  }

  #contextNow(): Context {
    const { secrets } = this.#parts
    if (this.#url.version !== secrets.version) {
      this.#url = { ...secrets.scrubAgain(this.#url), version: secrets.version }
      this.#context.url = this.#url.text
    }
    return this.#context
  }

  #abort(): void {
    this.#end.abort(new CdpGone('the target is not watched any more'))
    for (const { end } of this.#working.values()) end.abort(this.#end.signal.reason)
    this.#working.clear()
    this.#running.clear()
    clearTimeout(this.#again)
  }

  get isGone(): boolean {
    return this.#end.signal.aborted
  }

  /** Changes its collectors: new ones are started, others ended. Resolves when that is done, or its limits have passed. */
  async use(collectors: readonly Collector[]): Promise<void> {
    const wanted = collectors.filter(({ types }) => types.includes(this.type))
    this.#collectors = wanted
    const ended = [...this.#working.keys()].filter((collector) => !wanted.includes(collector))
    const begun = wanted.filter((collector) => !this.#working.has(collector))
    await Promise.all([...begun.map((collector) => this.#begin(collector)), ...ended.map((collector) => this.#finish(collector))])
  }

  async #begin(collector: Collector): Promise<void> {
    if (this.isGone) return
    const end = new AbortController()
    const { session, type } = this
    const target: WatchedTarget = {
      session,
      type,
      context: (more) => ({ ...this.#contextNow(), ...more }),
      signal: end.signal,
    }
    const started = this.#start(collector, target, end)
    this.#working.set(collector, { started, end })
    await started
  }

  async #start(collector: Collector, target: WatchedTarget, end: AbortController): Promise<(() => Promise<void>) | undefined> {
    const watching = (async () => collector.watch(target, this.#telemetry))()
    try {
      const stop = await within(`collecting ${collector.categories.join(', ')}`, START_MS, watching)
      if (!end.signal.aborted && this.#working.get(collector)?.end === end) this.#running.add(collector)
      return stop
    } catch (error) {
      if (this.#working.get(collector)?.end === end) this.#working.delete(collector)
      end.abort(new CdpGone('it did not begin'))
      void this.#later(collector, watching)
      if (!this.isGone && !(error instanceof CdpGone) && !this.#failed.has(collector)) {
        this.#failed.add(collector)
        this.fail(stepOf(error), error)
      }
      return undefined
    }
  }

  /** After a collector did not start in time: if it failed, or started too late and was ended, it is started again. */
  async #later(collector: Collector, watching: Promise<() => Promise<void>>): Promise<void> {
    const stop = await watching.catch(() => undefined)
    if (stop) {
      await stop().catch((err: unknown) => this.#parts.log.debug({ err }, 'a collector of telemetry that began late did not end'))
      // If it was started again meanwhile, this has disabled domains that it needs.
      await this.#finish(collector)
    }
    if (this.isGone) return
    clearTimeout(this.#again)
    this.#again = setTimeout(() => this.#beginMissing(), BEGIN_AGAIN_MS).unref()
  }

  async #finish(collector: Collector): Promise<void> {
    const work = this.#working.get(collector)
    if (!work) return
    this.#working.delete(collector)
    this.#running.delete(collector)
    const stop = async () => (await work.started)?.()
    const began = performance.now()
    try {
      await within('a collector to end', STOP_MS, stop())
    } catch (err) {
      if (!(err instanceof CdpGone)) this.#parts.log.warn({ err, ms: performance.now() - began }, 'a collector of telemetry did not end')
    } finally {
      work.end.abort(new CdpGone('nothing of this is captured any more'))
    }
  }

  /** Reports that a part of it could not be started. */
  fail(step: string, err: unknown): void {
    this.#parts.log.warn({ err, step }, 'telemetry cannot watch a page')
    const { session, sessionId, telemetry } = this.#parts
    telemetry.emit({
      type: 'monitor_init_failed',
      source: { kind: 'cdp', event: step, metadata: { target_id: session.targetId, session_id: sessionId } },
      data: { step },
    })
  }

  /** Ends all collectors, without waiting for a page that hangs. Chromium's state of the session ends with it. */
  async end(): Promise<void> {
    if (this.isGone) return
    await resultWithin(STOP_MS, this.use([]))
    this.#abort()
  }
}

/** The failed step in the form for events. */
export const stepOf = (error: unknown): string =>
  (error instanceof CdpRefusal && error.method) || (error instanceof WaitTimeout && error.what.slice(0, 200)) || 'unknown'

/** The address of a document; for an error page, the one that could not be loaded. It must be scrubbed, then cut. */
export const addressOf = (frame: Pick<Protocol.Page.Frame, 'url' | 'unreachableUrl'>): string => text(frame.unreachableUrl ?? frame.url, MAX_RAW_URL)

/** A text from Chromium, cut. */
export const text = (value: unknown, max: number): string => (typeof value === 'string' ? value.slice(0, max) : '')
