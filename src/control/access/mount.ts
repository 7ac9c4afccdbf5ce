// The groups by which an operator manages who may do what.
import type { Config } from '../../base/config.ts'
import { mount, type MountContext } from '../../http/mount.ts'
import type { Db } from '../../store/db.ts'
import { account } from './account/contract.ts'
import { accountHandlers, type Limits } from './account/handlers.ts'
import { apiKeys } from './api-keys/contract.ts'
import { apiKeyHandlers } from './api-keys/handlers.ts'
import { auditLogs } from './audit-logs/contract.ts'
import { auditExports } from './audit-logs/exports/contract.ts'
import { makeDestinations } from './audit-logs/exports/destinations.ts'
import { auditExportHandlers } from './audit-logs/exports/handlers.ts'
import type { Target } from './audit-logs/exports/target.ts'
import { auditLogHandlers } from './audit-logs/handlers.ts'
import type { Trail } from './audit-logs/trail.ts'
import { members } from './members/contract.ts'
import { memberHandlers } from './members/handlers.ts'
import { projects } from './projects/contract.ts'
import { projectHandlers } from './projects/handlers.ts'
import { makeLimits, type Caps } from './projects/limits.ts'
import { makeProjects, type Holding } from './projects/projects.ts'
import type { Rights } from './rights.ts'

export { exportAuditLog } from './audit-logs/exports/exporter.ts'
export { makeTarget } from './audit-logs/exports/target.ts'
export { oldEntries, oldExports } from './audit-logs/purge.ts'
export { storeRows } from './audit-logs/rows.ts'
export { auditTrail } from './audit-logs/trail.ts'
export { assertOrganization } from './projects/projects.ts'
export { watchKeys } from './revocations.ts'

/** What these groups need. */
export interface OrganizationSettings {
  db: Db
  /** What the settings limit. */
  config: Limits & Pick<Config, 'oidc'>
  rights: Rights
  /** They look again when a limit changes here. */
  caps: Caps
  holdings: readonly Holding[]
  trail: Pick<Trail, 'flush'>
  exportTarget: Target
  /** How many sessions this service has. */
  sessions: () => Promise<number>
  /** How many connections of managed auth it has. */
  authConnections: () => Promise<number>
}

/** Adds their routes: `mount(context, contract, handlers)` for each group. */
export function mountOrganization(context: MountContext, settings: OrganizationSettings): void {
  const { db, config, rights, caps } = settings
  mount(context, apiKeys, apiKeyHandlers(db, rights))
  mount(context, auditLogs, auditLogHandlers(db, settings.trail))
  mount(context, auditExports, auditExportHandlers(makeDestinations(db, settings.exportTarget)))
  mount(context, members, memberHandlers(db, rights, config.oidc?.issuer))
  mount(context, account, accountHandlers(config))
  const limits = makeLimits({ ...settings, maxSessions: config.maxBrowsers, onChange: () => caps.forget() })
  mount(context, projects, projectHandlers(makeProjects({ ...settings, onChange: () => rights.taken() }), limits))
}
