// Telemetry of sessions: read from their agents, stored, listed, and exported.
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
import { Exporter } from './export/exporter.ts'
import { makeSender } from './export/sender.ts'
import { Followers } from './followers.ts'
import { telemetryHandlers } from './handlers.ts'
import { keepMerging } from './merge.ts'
import { telemetryMeter } from './meter.ts'
import { oldTelemetry } from './purge.ts'
import { telemetryObjects } from './rows.ts'
import { makeTelemetry } from './telemetry.ts'

interface TelemetryPart {
  followers: Followers
  /** Replaces the name of the destination in options by its id. */
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
    const meter = telemetryMeter(metrics)
    const merging = house.use(keepMerging({ db, objects, scope, isOurs: () => leases.holds('telemetry'), log }))
    const followers = house.use(
      new Followers({
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
        meter,
        log,
      }),
    )
    metrics.show('cob_telemetry_sessions', 'Sessions whose telemetry is read', () => followers.followed)
    metrics.show('cob_telemetry_lag_seconds', 'How long the oldest telemetry waits that is not stored', () => followers.lagSeconds)
    house.mount(telemetryArchive, telemetryHandlers(makeTelemetry({ db, objects, scope, followers, exportDropped: meter.dropped, findSession, log })))

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
      const behind = { bytes: config.telemetryBehindMb * 1024 * 1024, ms: config.telemetryBehindHours * 3600_000 }
      const isOurs = () => leases.holds('telemetry_exports')
      const exporter = opened.use(new Exporter({ archive: { db, objects }, scope, sealer, sender, region: config.region, behind, isOurs, meter, log }))
      metrics.show('cob_telemetry_export_lag_seconds', 'Age of the oldest event that is not exported yet, where this replica exports', () => exporter.lag)
      return opened
    })
    return { followers, nameDestination: destinationNaming(destinations) }
  },
})
