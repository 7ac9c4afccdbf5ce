// Telemetry of sessions: read from their agents, stored, shown, and exported.
import { sealedColumn } from '../../../store/sealed-columns.ts'
import { assertOrganization } from '../../access/projects/projects.ts'
import { defineModule, phases } from '../../module.ts'
import { sessionEnding } from '../browsers/hooks.ts'
import { watched } from '../browsers/watched.ts'
import { telemetryArchive } from './contract.ts'
import { telemetryDestinations } from './destinations/contract.ts'
import { destinationHandlers } from './destinations/handlers.ts'
import { oldTelemetryExports } from './destinations/purge.ts'
import { makeTelemetryExports, type TelemetryExports } from './exports.ts'
import { telemetryHandlers } from './handlers.ts'
import { openTelemetry } from './open.ts'
import { oldTelemetry } from './purge.ts'
import { telemetryObjects } from './rows.ts'
import type { TelemetryArchive } from './archive.ts'

interface TelemetryPart extends Pick<TelemetryExports, 'nameDestination'> {
  archive: TelemetryArchive
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
    const { driver, leases, notifier, metrics } = house
    const { registry, tellWatcher, findSession } = house.of(watched)
    const opened = house.use(openTelemetry({ ...house, registry, standby: driver.standby, tellWatcher, findSession }))
    const { archive, rules, exportDropped } = opened
    const exports = makeTelemetryExports({ ...house, assertOrganization })
    house.mount(telemetryArchive, telemetryHandlers(rules))
    house.mount(telemetryDestinations, destinationHandlers(exports.destinations))
    house.fill(sessionEnding, archive.step)
    house.use({ [Symbol.dispose]: notifier.on('look', (text) => text === leases.replica && archive.lookSoon()) })
    house.fill(phases.adopt, () => archive.adopt())
    house.fill(phases.close, () => opened[Symbol.asyncDispose]())
    house.background(() => exports.start(metrics, exportDropped, () => leases.holds('telemetry_exports')))
    return { archive, nameDestination: exports.nameDestination }
  },
})
