// What the steps of fitting work on (types only).
import type { Log } from '../../../base/log.ts'
import type { Watchdog } from '../../../base/watchdog.ts'
import type { Browser } from '../../chromium/keeper.ts'
import type { SetTimeZone } from '../../chromium/time-zone.ts'
import type { ExtensionLoader } from '../../extensions/loader.ts'
import type { PageWindow } from '../../chromium/window.ts'
import type { InputQueue } from '../../computer/input-queue.ts'
import type { Screen } from '../../display/screen.ts'
import type { BrowserProxy } from '../../egress/proxy.ts'
import type { Secrets } from '../../../base/redact/redact.ts'
import type { EventBuffer } from '../../telemetry/event-buffer.ts'

/** What the steps work on. */
export interface FitParts {
  browser: Pick<Browser, 'run' | 'restart' | 'withFirstPage'>
  screen: Pick<Screen, 'resize'>
  window: PageWindow
  /** Writes the session's own managed policies (chromium/policies.ts). */
  writePolicy: (policy: Record<string, unknown>) => void
  /** Has Chromium block pop-ups (chromium/policies.ts). */
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
