// Follows the captured categories and the runs of Chromium: attaches to targets when a category needs that, and reports interruptions of the capture.
import type { Log } from '../../../base/log.ts'
import { Mutex } from '../../../base/mutex.ts'
import { resultWithin } from '../../../base/wait.ts'
import { CdpGone, type Cdp } from '../../chromium/cdp.ts'
import type { Keeper } from '../../chromium/keeper.ts'
import { CDP_CATEGORIES } from '../contract.ts'
import type { Telemetry } from '../telemetry.ts'
import { Attachment } from './attachment.ts'
import type { Collector } from './collector.ts'
import type { Secrets } from '../../../base/redact/redact.ts'
import { stepOf } from './watched.ts'
import { CHANGE_MS, FOLLOW_AGAIN_MS } from '../limits.ts'

export interface CaptureParts {
  browser: Pick<Keeper, 'run' | 'onRestart' | 'isFinished' | 'on'>
  telemetry: Telemetry
  collectors: readonly Collector[]
  secrets: Secrets
  log: Log
  signal: AbortSignal
}

/** Starts to follow. Chromium is not used before a category needs it. */
export function openCapture({ browser, telemetry, collectors, secrets, log, signal }: CaptureParts): void {
  const turns = new Mutex()
  let attachment: Attachment | undefined
  /** Time of the interruption of the capture, in milliseconds of `performance.now()`. */
  let lostAt: number | undefined

  const isWanted = () => !signal.aborted && !browser.isFinished && CDP_CATEGORIES.some((category) => telemetry.captures(category))
  const wanted = () => (isWanted() ? collectors.filter(({ categories }) => categories.some((category) => telemetry.captures(category))) : [])

  let again: NodeJS.Timeout | undefined
  /** Whether a failure was reported since the last success. */
  let hasReportedFailure = false

  /** Brings Chromium in line with the present categories. */
  async function follow(): Promise<void> {
    if (!isWanted()) {
      lostAt = undefined
      const before = attachment
      attachment = undefined
      if (before && !before.cdp.ended.aborted) await before.use([])
      return
    }
    const { pipe } = await browser.run()
    // The browser has just ended: the next run is followed when it is ready.
    if (pipe.ended.aborted) return
    if (attachment?.cdp !== pipe) attachment = begin(pipe)
    await attachment.use(wanted())
    if (lostAt === undefined) return
    const data = { reconnect_duration_ms: Math.round(performance.now() - lostAt) }
    lostAt = undefined
    telemetry.emit({ type: 'monitor_reconnected', source: { kind: 'cdp' }, data })
  }

  function begin(pipe: Cdp): Attachment {
    const begun = new Attachment(pipe, { telemetry, secrets, log })
    pipe.ended.addEventListener(
      'abort',
      () => {
        if (attachment !== begun) return
        attachment = undefined
        if (!isWanted()) return
        lostAt ??= performance.now()
        telemetry.emit({ type: 'monitor_disconnected', source: { kind: 'cdp' }, data: { reason: 'chrome_restarted' } })
      },
      { once: true },
    )
    return begun
  }

  /** The same, one call after the other, and without errors. */
  async function change(): Promise<void> {
    try {
      clearTimeout(again)
      await turns.run(follow, signal)
      hasReportedFailure = false
    } catch (err) {
      if (signal.aborted || err instanceof CdpGone) return
      clearTimeout(again)
      again = setTimeout(() => void change(), FOLLOW_AGAIN_MS).unref()
      if (hasReportedFailure) return
      hasReportedFailure = true
      const step = stepOf(err)
      log.warn({ err, step }, 'telemetry cannot watch the browser')
      telemetry.emit({ type: 'monitor_init_failed', source: { kind: 'cdp', event: step }, data: { step } })
    }
  }
  const changed = () => resultWithin(CHANGE_MS, change(), signal)

  const forget = telemetry.onChange(changed)
  const stop = () => {
    forget()
    clearTimeout(again)
  }
  signal.addEventListener('abort', stop, { once: true })
  browser.onRestart(changed)
  browser.on('given_up', () => {
    if (isWanted()) telemetry.emit({ type: 'monitor_reconnect_failed', source: { kind: 'cdp' }, data: { reason: 'reconnect_exhausted' } })
  })
}
