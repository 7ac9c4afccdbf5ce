// Telemetry of sessions: followed at their agents, stored, read, and exported.
import { makeSealer } from '../../../base/sealed.ts'
import { sealedColumn } from '../../../store/sealed-columns.ts'
import { assertOrganization } from '../../access/projects/projects.ts'
import { defineModule, phases } from '../../module.ts'
import { sessionEnding } from '../browsers/hooks.ts'
import { watched } from '../browsers/watched.ts'
import { telemetryArchive } from './contract.ts'
import { telemetryDestinations } from './destinations/contract.ts'
import { makeDestinations } from './destinations/destinations.ts'
import { destinationHandlers } from './destinations/handlers.ts'
import { oldTelemetryExports } from './destinations/purge.ts'
import { destinationNaming } from './destinations/references.ts'
import { exportTelemetry } from './export/exporter.ts'
import { exportMeter } from './export/meter.ts'
import { makeSender } from './export/sender.ts'
import { makeFollowers, type Followers } from './followers.ts'
import { telemetryHandlers } from './handlers.ts'
import { keepMerging } from './merge.ts'
import { oldTelemetry } from './purge.ts'
import { readEvents } from './read.ts'
import { telemetryObjects } from './rows.ts'
import { makeTelemetry } from './telemetry.ts'

interface TelemetryPart {
  followers: Followers
  /** Puts the id of the destination that options name in place of its name. */
  nameDestination: ReturnType<typeof destinationNaming>
}

export const telemetry = defineModule<TelemetryPart>({
  name: 'telemetry',
  contracts: [telemetryArchive, telemetryDestinations],
  sealed: [sealedColumn('telemetry_destinations', 'headers', { purpose: 'telemetry-destinations' })],
  objects: [telemetryObjects],
  duties: ['telemetry', 'telemetry_exports'],
  purges: ({ db, objects, scope, config }) => [
    oldTelemetry({ db, objects }, scope, config.telemetryRetentionDays),
    oldTelemetryExports(db, config.keepEndedDays),
  ],
  open(house) {
    const { db, objects, scope, config, keys, log, driver, leases, notifier, metrics } = house
    const { registry, tellWatcher, findSession } = house.of(watched)
    const [events, bytes, lost] = [
      metrics.count('cob_telemetry_events_stored_total', 'Telemetry events that were stored'),
      metrics.count('cob_telemetry_bytes_stored_total', 'Bytes of telemetry that were stored, compressed'),
      metrics.count('cob_telemetry_events_lost_total', 'Telemetry events that were not stored: dropped by their session, or over its limit'),
    ]
    const dropped = metrics.count(
      'cob_telemetry_export_dropped_events_total',
      'Events of telemetry that were given up because their destination was behind by too much, or deleted before they had arrived',
    )
    const merging = house.use(keepMerging({ db, objects, scope, isOurs: () => leases.holds('telemetry'), log }))
    const followers = house.use(
      makeFollowers({
        db,
        scope,
        leases,
        endpointOf: (id) => registry.endpointOf(id),
        agentOf: (id) => (registry.runs(id) ? registry.get(id)?.agent : undefined),
        isIdle: (id) => registry.isReady(id),
        isAsleep: (id) => driver.standby?.isAsleep(id) ?? false,
        tellWatcher,
        fullDisk: () => house.disk.room.problem,
        maxBytes: config.telemetryMaxMb * 1024 * 1024,
        meter: { stored: (count, length) => (events(count), bytes(length)), lost },
        log,
      }),
    )
    metrics.show('cob_telemetry_sessions', 'Sessions whose telemetry is read', () => followers.followed)
    metrics.show('cob_telemetry_lag_seconds', 'How long the oldest telemetry waits that is not stored', () => followers.lagSeconds)
    house.mount(telemetryArchive, telemetryHandlers(makeTelemetry({ db, objects, scope, followers, exportDropped: dropped, findSession, log })))

    const sealer = makeSealer(keys, 'telemetry-destinations')
    const destinations = makeDestinations({ db, sealer, reach: config, assertOrganization })
    house.mount(telemetryDestinations, destinationHandlers(destinations))
    house.fill(sessionEnding, followers.step)
    house.use({ [Symbol.dispose]: notifier.on('look', (text) => text === leases.replica && followers.lookSoon()) })
    house.fill(phases.adopt, () => followers.adopt())
    house.fill(phases.close, async () => {
      await followers[Symbol.asyncDispose]()
      await merging[Symbol.asyncDispose]()
    })
    house.background(() => {
      const opened = new AsyncDisposableStack()
      const sender = opened.use(makeSender(config))
      const exporter: ReturnType<typeof exportTelemetry> = opened.use(
        exportTelemetry({
          db,
          scope,
          sealer,
          sender,
          read: (session, { after, to }, signal) => readEvents({ db, objects }, session, { after, before: to + 1, isKept: false }, true, signal),
          removeObject: (object) => objects.delete(object),
          region: config.region,
          behind: { bytes: config.telemetryBehindMb * 1024 * 1024, ms: config.telemetryBehindHours * 3600_000 },
          isOurs: () => leases.holds('telemetry_exports'),
          meter: { ...exportMeter(metrics, () => exporter.lag), dropped },
          log,
        }),
      )
      return opened
    })
    return { followers, nameDestination: destinationNaming(destinations) }
  },
})
