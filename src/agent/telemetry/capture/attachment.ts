// Watches the targets of one run of Chromium: by auto-attach, so that a page, popup, frame or worker is watched before its first script runs.
import type { Log } from '../../../base/log.ts'
import { resultWithin } from '../../../base/wait.ts'
import { CdpGone, type Cdp, type CdpChannel, type CdpSession } from '../../chromium/cdp.ts'
import type { EventParams } from '../../chromium/cdp-protocol.ts'
import type { Teller } from '../telemetry.ts'
import type { Collector, Context } from './collector.ts'
import { tabOpened } from './page.ts'
import type { Secrets } from '../../../base/redact/redact.ts'
import { Share } from './share.ts'
import { isInternal, stepOf, text, Watched } from './watched.ts'
import { ATTACH_MS, BEGUN_MS, HELD_MS, MAX_RAW_URL, MAX_TARGETS, RESUME_AGAIN_MS, RESUME_MS } from '../limits.ts'

/** The types that Chromium attaches to from the browser, and those that it attaches to from a page, a frame or a worker. */
const FROM_BROWSER = ['page', 'service_worker', 'shared_worker'] as const
const FROM_PARENT = ['iframe', 'worker'] as const
type Type = (typeof FROM_BROWSER)[number] | (typeof FROM_PARENT)[number]

export interface AttachmentParts {
  telemetry: Teller
  secrets: Secrets
  log: Log
}

export class Attachment {
  readonly cdp: Cdp
  /** A browser session in which nothing else attaches: otherwise the capture would get the events of all other attachments in it. */
  #browser: CdpSession | undefined
  readonly #parts: AttachmentParts
  readonly #watched = new Set<Watched>()
  /** Targets and sessions with auto-attach. */
  readonly #parents = new Set<CdpSession>()
  /** Targets that existed before the capture began. */
  #old: ReadonlySet<string> = new Set()
  #collectors: readonly Collector[] = []
  #types: readonly Type[] = []
  /** The types of targets to attach to, set when Chromium has accepted them everywhere. */
  #attachedTo: string | undefined
  #hasReportedFull = false

  constructor(cdp: Cdp, parts: AttachmentParts) {
    this.cdp = cdp
    this.#parts = parts
  }

  /** Number of watched targets. */
  get size(): number {
    return this.#watched.size
  }

  /** Sets the collectors that work on all targets from now on. Without any, Chromium is left as if nothing had ever attached to it. */
  async use(collectors: readonly Collector[]): Promise<void> {
    this.#collectors = collectors
    if (collectors.length === 0) return this.#end()
    const types = typesOf(collectors)
    this.#types = types
    await Promise.all([...this.#watched].map((watched) => watched.use(collectors)))
    if (this.#attachedTo === types.join()) return
    this.#attachedTo = undefined
    if (!this.#browser) {
      const { targetInfos } = await this.cdp.send('Target.getTargets', {}, { limitMs: ATTACH_MS })
      this.#old = new Set(targetInfos.map(({ targetId }) => targetId))
      this.#browser = await this.#open()
    }
    await this.#attach(
      this.#browser,
      FROM_BROWSER.filter((type) => types.includes(type)),
    )
    await Promise.all([...this.#parents].map((parent) => this.#attach(parent, this.#nested).catch((error: unknown) => ignoreGone(error))))
    this.#old = new Set()
    this.#attachedTo = types.join()
    await resultWithin(BEGUN_MS, Promise.all(this.#beginning))
  }

  async #open(): Promise<CdpSession> {
    const { sessionId } = await this.cdp.send('Target.attachToBrowserTarget', {}, { limitMs: ATTACH_MS })
    const browser = this.cdp.adopt(sessionId, 'browser')
    const losses = new Share('too_large', { signal: browser.detached }, this.#parts.telemetry)
    const unsubscribe = this.cdp.onLostEvent(() => losses.lose())
    browser.detached.addEventListener('abort', unsubscribe, { once: true })
    browser.on('Target.attachedToTarget', (event) => this.#take(event, browser))
    return browser
  }

  /** Starts of targets that are not complete. */
  readonly #beginning = new Set<Promise<void>>()

  async #end(): Promise<void> {
    const browser = this.#browser
    this.#browser = undefined
    this.#types = []
    this.#attachedTo = undefined
    await Promise.all([...this.#watched].map((watched) => watched.end()))
    this.#parents.clear()
    // Every session that was opened in this one ends with it.
    await browser?.detach()
  }

  async #attach(channel: CdpChannel, types: readonly Type[]): Promise<void> {
    const autoAttach = types.length > 0
    const filter = types.map((type) => ({ type }))
    await channel.send('Target.setAutoAttach', { autoAttach, waitForDebuggerOnStart: autoAttach, flatten: true, filter }, { limitMs: ATTACH_MS })
  }

  /**
   * The types that are attached to inside of a target. Even with a filter that leaves out workers, Chromium pauses them at their start, and nobody would resume
   * them.
   */
  get #nested(): readonly Type[] {
    return FROM_PARENT.some((type) => this.#types.includes(type)) ? FROM_PARENT : []
  }

  /** Takes over a session. Its target is resumed in any case. */
  #take(event: EventParams<'Target.attachedToTarget'>, by: CdpSession): void {
    const session = this.cdp.adopt(String(event.sessionId), text(event.targetInfo?.targetId, 64), by)
    try {
      this.#onAttached(event, session)
    } catch (err) {
      this.#parts.log.warn({ err }, 'telemetry cannot watch a target')
      this.#leave(session)
    }
  }

  #onAttached({ sessionId, targetInfo, waitingForDebugger }: EventParams<'Target.attachedToTarget'>, session: CdpSession): void {
    const type = text(targetInfo?.type, 64) as Type
    const isKnown = this.#types.includes(type)
    // A frame or worker of an extension, or of Chromium's own pages.
    const isOurs = isKnown && (type === 'page' || !isInternal(text(targetInfo.url, 64)))
    if (!isOurs || this.#isFull()) return this.#leave(session)
    const isOld = !waitingForDebugger && (type !== 'page' || this.#old.has(session.targetId))
    if (type === 'page' && !this.#old.has(session.targetId)) tabOpened(targetInfo, this.#parts)
    const watched = new Watched({ session, sessionId, type: type as Context['target_type'], url: text(targetInfo.url, MAX_RAW_URL), isOld, ...this.#parts })
    this.#watched.add(watched)
    const gone = () => {
      this.#watched.delete(watched)
      this.#parents.delete(session)
    }
    if (session.detached.aborted) return gone()
    session.detached.addEventListener('abort', gone, { once: true })
    const beginning = this.#begin(watched, waitingForDebugger ? HELD_MS : BEGUN_MS).finally(() => this.#beginning.delete(beginning))
    this.#beginning.add(beginning)
  }

  async #begin(watched: Watched, ms: number): Promise<void> {
    const { session, type } = watched
    try {
      const collecting = watched.use(this.#collectors)
      const nested = type === 'service_worker' || type === 'shared_worker' ? undefined : this.#beginNested(watched)
      await resultWithin(ms, Promise.all([collecting, nested]), session.detached)
    } catch (error) {
      if (!(error instanceof CdpGone)) watched.fail(stepOf(error), error)
    } finally {
      await this.#resume(session, Infinity)
    }
  }

  /** Watches the targets inside of a target. */
  async #beginNested(watched: Watched): Promise<void> {
    const { session } = watched
    session.on('Target.attachedToTarget', (event) => this.#take(event, session))
    this.#parents.add(session)
    if (this.#nested.length === 0) return
    try {
      await this.#attach(session, this.#nested)
    } catch (error) {
      if (!(error instanceof CdpGone)) watched.fail(stepOf(error), error)
    }
  }

  /** Resumes a target; otherwise it would stay paused for ever. A page that hangs executes the command when it continues. */
  async #resume(session: CdpSession, tries: number): Promise<void> {
    for (let count = 0; count < tries && !session.detached.aborted; count++) {
      try {
        if (count > 0) await resultWithin(RESUME_AGAIN_MS, new Promise(() => {}), session.detached)
        await session.send('Runtime.runIfWaitingForDebugger', {}, { limitMs: RESUME_MS, isUrgent: true })
        return
      } catch (err) {
        if (!(err instanceof CdpGone)) this.#parts.log.debug({ err }, 'a page did not answer that it goes on')
      }
    }
  }

  /** Leaves a target that is not watched, and resumes it. */
  #leave(session: CdpSession): void {
    void this.#resume(session, 1)
      .then(() => session.detach())
      .catch((err: unknown) => {
        if (!(err instanceof CdpGone)) this.#parts.log.debug({ err }, 'a target was not left')
      })
  }

  #isFull(): boolean {
    const isFull = this.#watched.size >= MAX_TARGETS
    if (isFull && !this.#hasReportedFull) {
      const event = 'Target.attachedToTarget'
      this.#parts.log.warn({ targets: MAX_TARGETS }, 'telemetry watches no more pages')
      this.#parts.telemetry.emit({ type: 'monitor_init_failed', source: { kind: 'cdp', event }, data: { step: `${event}: more than ${MAX_TARGETS} targets` } })
    }
    this.#hasReportedFull = isFull
    return isFull
  }
}

/** The types that collectors want, and the types that contain these. */
function typesOf(collectors: readonly Collector[]): readonly Type[] {
  const wanted = new Set<string>(collectors.flatMap(({ types }) => types))
  if (FROM_PARENT.some((type) => wanted.has(type))) wanted.add('page')
  if (wanted.has('worker')) wanted.add('iframe')
  return [...FROM_BROWSER, ...FROM_PARENT].filter((type) => wanted.has(type))
}

function ignoreGone(error: unknown): void {
  if (!(error instanceof CdpGone)) throw error
}
