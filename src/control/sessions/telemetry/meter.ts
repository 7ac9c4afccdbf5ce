// Metrics of telemetry.
import type { House } from '../../module.ts'

export type TelemetryMeter = ReturnType<typeof telemetryMeter>

export function telemetryMeter({ count }: Pick<House['metrics'], 'count'>) {
  const counted = (which: string, help: string) => count(`cob_telemetry_${which}_total`, help)
  const [events, bytes, failures] = [
    counted('events_stored', 'Telemetry events that were stored'),
    counted('bytes_stored', 'Bytes of telemetry that were stored, compressed'),
    counted('export_failures', 'Attempts to export telemetry that failed and are repeated'),
  ]
  return {
    stored: (more: number, length: number) => (events(more), bytes(length)),
    lost: counted('events_lost', 'Telemetry events that were not stored: dropped by their session, or over its limit'),
    delivered: counted('export_delivered_events', 'Events of telemetry that destinations have taken'),
    refused: counted('export_refused_events', 'Events of telemetry that destinations have refused for good'),
    dropped: counted(
      'export_dropped_events',
      'Events of telemetry that were given up because their destination was behind by too much, or deleted before they had arrived',
    ),
    refusedSpans: counted('export_refused_spans', 'Spans of telemetry that destinations have refused for good, or failed to take for too long'),
    skippedSpans: counted(
      'export_skipped_spans',
      'Spans of telemetry that were not sent, because their destination takes none, or has just failed to for too long',
    ),
    failed: () => failures(1),
  }
}
