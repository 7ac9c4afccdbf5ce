// What is removed after some time, of all groups.
import type { Config } from '../../base/config.ts'
import type { Db } from '../../store/db.ts'
import type { Objects } from '../../store/objects.ts'
import { oldFlows } from '../logins/auth-connections/purge.ts'
import { deletedPools } from '../sessions/browser-pools/purge.ts'
import { endedSessions } from '../sessions/browsers/purge.ts'
import { endedDeployments, oldLines } from '../apps/deployments/purge.ts'
import { endedRuns } from '../apps/invocations/purge.ts'
import { endedGrants } from '../access/oauth/purge.ts'
import { oldEntries, oldExports } from '../access/mount.ts'
import { deletedProfiles } from '../sessions/profiles/purge.ts'
import { deletedProxies } from '../sessions/proxies/purge.ts'
import { endedWebSessions } from '../access/sign-in/purge.ts'
import type { Purge } from './system/purge.ts'
import { oldTelemetryExports } from '../sessions/telemetry/destinations/purge.ts'
import { oldTelemetry } from '../sessions/telemetry/purge.ts'

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
