// What the export of telemetry adds to the figures of the service.
import type { ExportMeter } from './exporter.ts'

/** The figures that others add to. */
export interface Figures {
  show(name: string, help: string, value: () => number): void
  count(name: string, help: string): (more: number) => void
}

/** `lag`: seconds since the oldest event that is not delivered. */
export function exportMeter({ show, count }: Figures, lag: () => number): Omit<ExportMeter, 'dropped'> {
  const spans = (which: string, help: string) => count(`cob_telemetry_export_${which}_spans_total`, help)
  const events = (which: string, help: string) => count(`cob_telemetry_export_${which}_events_total`, help)
  const failures = count('cob_telemetry_export_failures_total', 'Attempts to export telemetry that failed and are repeated')
  show('cob_telemetry_export_lag_seconds', 'Age of the oldest event that is not exported yet, where this replica exports', lag)
  return {
    delivered: events('delivered', 'Events of telemetry that destinations have taken'),
    refused: events('refused', 'Events of telemetry that destinations have refused for good'),
    refusedSpans: spans('refused', 'Spans of telemetry that destinations have refused for good, or failed to take for too long'),
    skippedSpans: spans('skipped', 'Spans of telemetry that were not sent, because their destination takes none, or has just failed to for too long'),
    failed: () => failures(1),
  }
}
