// Events about programs of the instance that ended unexpectedly.
import type { SessionBrowser } from '../chromium/keeper.ts'
import type { Telemetry } from './telemetry.ts'

/** A program that ended. */
export interface Crash {
  service: 'chromium' | 'xvfb' | 'pulseaudio' | 'ffmpeg' | 'x0tigervnc'
  /** It was still starting; it was running; it is not restarted any more. */
  phase: 'startup' | 'running' | 'gave_up'
  pid?: number | undefined
}

export type OnCrash = (crash: Crash) => void

export const crashTeller =
  (telemetry: Telemetry): OnCrash =>
  ({ service, phase, pid }) =>
    telemetry.emit({
      type: 'service_crashed',
      source: { kind: 'local_process', event: phase },
      data: { service_name: service, phase, ...(pid !== undefined && { pid }) },
    })

/** Emits events about Chromium's ends. */
export function tellChromiumCrashes(browser: Pick<SessionBrowser, 'on'>, onCrash: OnCrash): void {
  browser.on('chromium_crashed', (_detail, pid) => onCrash({ service: 'chromium', phase: 'running', pid }))
  browser.on('chromium_not_started', () => onCrash({ service: 'chromium', phase: 'startup' }))
  browser.on('given_up', () => onCrash({ service: 'chromium', phase: 'gave_up' }))
}
