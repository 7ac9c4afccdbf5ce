// What is removed after some time, of all groups.
import type { Config } from '../base/config.ts'
import type { Db } from '../store/db.ts'
import type { Objects } from '../store/objects.ts'
import { oldFlows } from './auth-connections/purge.ts'
import { deletedPools } from './browser-pools/purge.ts'
import { endedSessions } from './browsers/purge.ts'
import { endedDeployments, oldLines } from './deployments/purge.ts'
import { endedRuns } from './invocations/purge.ts'
import { endedGrants } from './oauth/purge.ts'
import { oldEntries, oldExports } from './org/mount.ts'
import { deletedProfiles } from './profiles/purge.ts'
import { deletedProxies } from './proxies/purge.ts'
import { endedWebSessions } from './sign-in/purge.ts'
import type { Purge } from './system/purge.ts'
import { oldTelemetryExports } from './telemetry/destinations/purge.ts'
import { oldTelemetry } from './telemetry/purge.ts'

interface PurgesSettings {
  db: Db
  objects: Objects
  scope: string
  config: Pick<Config, 'keepEndedDays' | 'auditLogRetentionDays' | 'telemetryRetentionDays'>
}

/** A new group whose rows end adds a line here. */
export const purges = ({ db, objects, scope, config: { keepEndedDays: days, auditLogRetentionDays, telemetryRetentionDays } }: PurgesSettings): Purge[] => [
  endedSessions(db, scope, days),
  deletedProfiles(db, days),
  deletedPools(db, days),
  oldLines(db, scope),
  endedRuns(db, scope, days),
  endedDeployments(db, scope, days),
  oldFlows(db, scope, days),
  deletedProxies(db, days),
  oldEntries(db, auditLogRetentionDays),
  oldExports(db, days, auditLogRetentionDays),
  oldTelemetry({ db, objects }, scope, telemetryRetentionDays),
  oldTelemetryExports(db, days),
  endedWebSessions(db),
  endedGrants(db),
]
