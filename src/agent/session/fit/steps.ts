// The steps of fitting, in their order. A new setting is a field of `Fit` (../contract.ts) and its step here.
import type { Log } from '../../../base/log.ts'
import type { Watchdog } from '../../../base/watchdog.ts'
import type { Browser } from '../../chromium/keeper.ts'
import type { SetTimeZone } from '../../chromium/time-zone.ts'
import type { ExtensionLoader } from '../../extensions/loader.ts'
import type { PageWindow } from '../../chromium/window.ts'
import type { InputQueue } from '../../computer/input-queue.ts'
import type { Screen } from '../../display/screen.ts'
import { extensions } from './extensions.ts'
import type { BrowserProxy } from '../../egress/proxy.ts'
import { fullScreen } from './full-screen.ts'
import { letGo } from './let-go.ts'
import { policy } from './policy.ts'
import { proxy } from './proxy.ts'
import { startPage } from './start-page.ts'
import type { Secrets } from '../../telemetry/capture/secrets.ts'
import type { EventBuffer } from '../../telemetry/event-buffer.ts'
import type { Step } from './step.ts'
import { stealth } from './stealth.ts'
import { telemetry } from './telemetry.ts'
import { timeZone } from './time-zone.ts'
import { timeout } from './timeout.ts'
import { viewport } from './viewport.ts'

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

/**
 * Makes the steps. Telemetry comes before all that it could tell of. The proxy comes before what restarts Chromium: one that has just started does not take it at once, but has it from its start when it is set by then. After
 * that what the first page has to find; then the screen, the window in it, and the page in that.
 */
export const fitSteps = (parts: FitParts): readonly Step[] => [
  timeout(parts),
  telemetry(parts),
  letGo(parts),
  proxy(parts),
  timeZone(parts),
  stealth(parts),
  policy(parts),
  extensions(parts),
  viewport(parts),
  fullScreen(parts),
  startPage(parts),
]
