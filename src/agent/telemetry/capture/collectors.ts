// The list of collectors, which capture events in Chromium.
import type { Log } from '../../../base/log.ts'
import type { Secrets } from '../../../base/redact/redact.ts'
import type { Collector } from './collector.ts'
import { consoleCollector } from './console.ts'
import { interaction } from './interaction.ts'
import { networkCollector } from './network.ts'
import { page } from './page.ts'
import { passwords } from './passwords.ts'
import { screenshot } from './screenshot.ts'

export interface CollectorParts {
  secrets: Secrets
  log: Log
}

/** The first one learns secrets before the others emit events. */
export const makeCollectors = ({ secrets, log }: CollectorParts): readonly Collector[] => [
  passwords(secrets),
  page(secrets),
  networkCollector(secrets),
  consoleCollector(secrets),
  interaction(secrets),
  screenshot(log),
]
