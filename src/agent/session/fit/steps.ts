// The steps of fitting, in their order. A new setting is a field of `Fit` (../contract.ts) and its step here.
import { extensions } from './extensions.ts'
import { fullScreen } from './full-screen.ts'
import { letGo } from './let-go.ts'
import type { FitParts } from './parts.ts'
import { policy } from './policy.ts'
import { proxy } from './proxy.ts'
import { startPage } from './start-page.ts'
import type { Step } from './step.ts'
import { stealth } from './stealth.ts'
import { telemetry } from './telemetry.ts'
import { timeZone } from './time-zone.ts'
import { timeout } from './timeout.ts'
import { viewport } from './viewport.ts'

/**
 * Makes the steps. Telemetry comes first, before all steps about which it has events. The proxy comes before steps that restart Chromium: a browser that has
 * just started does not apply a change at once, but has the proxy from its start if it is set before. Next come the things that the first page must find; then
 * the screen, the window, and the page.
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
