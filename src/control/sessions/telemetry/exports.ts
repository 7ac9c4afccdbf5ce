// Wires the export of telemetry: its destinations, and the work in the background.
import type { Config } from '../../../base/config.ts'
import type { Keys } from '../../../base/keys.ts'
import type { Log } from '../../../base/log.ts'
import { makeSealer } from '../../../base/sealed.ts'
import type { Principal } from '../../../http/route.ts'
import type { Db } from '../../../store/db.ts'
import type { Objects } from '../../../store/objects.ts'
import { makeDestinations, type Destinations } from './destinations/destinations.ts'
import { destinationNaming } from './destinations/references.ts'
import { exportTelemetry } from './export/exporter.ts'
import { exportMeter, type Figures } from './export/meter.ts'
import { makeSender } from './export/sender.ts'
import { readEvents } from './read.ts'

interface ExportsSettings {
  db: Db
  scope: string
  objects: Objects
  keys: Keys
  config: Pick<Config, 'allowHostLoopback' | 'region' | 'telemetryBehindMb' | 'telemetryBehindHours'>
  assertOrganization: (by: Principal) => void
  log: Log
}

export interface TelemetryExports {
  destinations: Destinations
  /** Puts the id of the destination that options name in place of its name. */
  nameDestination: ReturnType<typeof destinationNaming>
  /** Exports until the result is disposed, while this replica `isOurs`. `dropped`: counts events that were given up. */
  start(figures: Figures, dropped: (events: number) => void, isOurs: () => boolean): AsyncDisposable
}

export function makeTelemetryExports({ db, scope, objects, keys, config, assertOrganization, log }: ExportsSettings): TelemetryExports {
  const sealer = makeSealer(keys, 'telemetry-destinations')
  const destinations = makeDestinations({ db, sealer, reach: config, assertOrganization })
  return {
    destinations,
    nameDestination: destinationNaming(destinations),
    start(figures, dropped, isOurs) {
      const sender = makeSender(config)
      const exporter = exportTelemetry({
        db,
        scope,
        sealer,
        sender,
        read: (session, { after, to }, signal) => readEvents({ db, objects }, session, { after, before: to + 1, isKept: false }, true, signal),
        removeObject: (object) => objects.delete(object),
        region: config.region,
        behind: { bytes: config.telemetryBehindMb * 1024 * 1024, ms: config.telemetryBehindHours * 3600_000 },
        isOurs,
        meter: { ...exportMeter(figures, () => exporter.lag), dropped },
        log,
      })
      return {
        async [Symbol.asyncDispose]() {
          await exporter[Symbol.asyncDispose]()
          sender[Symbol.dispose]()
        },
      }
    },
  }
}
