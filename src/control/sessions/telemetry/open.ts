// What is kept of telemetry, put together: reading and storing it, merging it, its figures, its rules.
import type { Config } from '../../../base/config.ts'
import type { Log } from '../../../base/log.ts'
import type { Endpoint } from '../../../http/endpoint.ts'
import type { Db } from '../../../store/db.ts'
import type { Leases } from '../../../store/leases.ts'
import type { Objects } from '../../../store/objects.ts'
import { makeArchive, type TelemetryArchive } from './archive.ts'
import { keepMerging } from './merge.ts'
import { makeTelemetry, type Telemetry } from './telemetry.ts'

interface OpenSettings {
  db: Db
  objects: Objects
  scope: string
  leases: Leases
  /** What this replica knows of its instances. */
  registry: {
    endpointOf(id: string): Endpoint | undefined
    get(id: string): { agent: Endpoint } | undefined
    runs(id: string): boolean
    isReady(id: string): boolean
  }
  /** Undefined when no session ever sleeps. */
  standby: { isAsleep(id: string): boolean } | undefined
  tellWatcher: (id: string) => Promise<boolean>
  disk: { room: { problem?: string | undefined } }
  config: Pick<Config, 'telemetryMaxMb'>
  metrics: {
    count(name: string, help: string): (by: number) => void
    show(name: string, help: string, value: () => number): void
  }
  findSession: (project: string, idOrName: string) => Promise<{ id: string; state: string } | undefined>
  log: Log
}

export interface OpenTelemetry extends AsyncDisposable {
  archive: TelemetryArchive
  rules: Telemetry
  /** Counts events that were not exported and never will be. */
  exportDropped: (events: number) => void
}

export function openTelemetry(settings: OpenSettings): OpenTelemetry {
  const { db, objects, scope, leases, registry, standby, tellWatcher, disk, config, metrics, findSession, log } = settings
  const [events, bytes, lost] = [
    metrics.count('cob_telemetry_events_stored_total', 'Telemetry events that were stored'),
    metrics.count('cob_telemetry_bytes_stored_total', 'Bytes of telemetry that were stored, compressed'),
    metrics.count('cob_telemetry_events_lost_total', 'Telemetry events that were not stored: dropped by their session, or over its limit'),
  ]
  const exportDropped = metrics.count(
    'cob_telemetry_export_dropped_events_total',
    'Events of telemetry that were given up because their destination was behind by too much, or deleted before they had arrived',
  )
  const meter = {
    stored(count: number, length: number) {
      events(count)
      bytes(length)
    },
    lost,
  }
  const merger = keepMerging({ db, objects, scope, isOurs: () => leases.holds('telemetry'), log })
  const archive = makeArchive({
    db,
    scope,
    leases,
    endpointOf: (id) => registry.endpointOf(id),
    agentOf: (id) => (registry.runs(id) ? registry.get(id)?.agent : undefined),
    isIdle: (id) => registry.isReady(id),
    isAsleep: (id) => standby?.isAsleep(id) ?? false,
    tellWatcher,
    fullDisk: () => disk.room.problem,
    maxBytes: config.telemetryMaxMb * 1024 * 1024,
    meter,
    onEnded: (id) => merger.ended(id),
    log,
  })
  metrics.show('cob_telemetry_sessions', 'Sessions whose telemetry is read', () => archive.followed)
  metrics.show('cob_telemetry_lag_seconds', 'How long the oldest telemetry waits that is not stored', () => archive.lagSeconds)
  return {
    archive,
    rules: makeTelemetry({ db, objects, scope, archive, exportDropped, findSession, log }),
    exportDropped,
    async [Symbol.asyncDispose]() {
      await archive[Symbol.asyncDispose]()
      await merger[Symbol.asyncDispose]()
    },
  }
}
