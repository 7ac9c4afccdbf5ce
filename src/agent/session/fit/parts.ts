// The parts of an agent that the steps of fitting use (types only).
import type { Log } from '../../../base/log.ts'
import type { Watchdog } from '../../../base/watchdog.ts'
import type { SessionBrowser } from '../../chromium/keeper.ts'
import type { Pages } from '../../chromium/pages.ts'
import type { SetTimeZone } from '../../chromium/time-zone.ts'
import type { ExtensionLoader } from '../../extensions/loader.ts'
import type { PageWindow } from '../../chromium/window.ts'
import type { InputQueue } from '../../computer/input-queue.ts'
import type { Screen } from '../../display/display.ts'
import type { BrowserProxy } from '../../egress/proxy.ts'
import type { Secrets } from '../../../base/redact/redact.ts'
import type { EventBuffer } from '../../telemetry/event-buffer.ts'

/** The parts that the steps use. */
export interface FitParts {
  browser: Pick<SessionBrowser, 'run' | 'restart'>
  pages: Pick<Pages, 'focus' | 'open'>
  screen: Pick<Screen, 'resize'>
  window: PageWindow
  /** Writes the session's own managed policies (chromium/policies.ts). */
  writePolicy: (policy: Record<string, unknown>) => void
  /** Makes Chromium block pop-ups (chromium/policies.ts). */
  writePopupPolicy: () => void
  /** Loads unpacked extensions. */
  loader: ExtensionLoader
  proxy: Pick<BrowserProxy, 'isOn' | 'use' | 'confirmed'>
  setTimeZone: SetTimeZone
  watchdog: Watchdog
  inputQueue: Pick<InputQueue, 'letGo'>
  eventBuffer: Pick<EventBuffer, 'capture' | 'hideFromNext'>
  secrets: Pick<Secrets, 'forget'>
  log: Log
}
