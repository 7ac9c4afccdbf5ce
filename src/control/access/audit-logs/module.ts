// The audit log: written with each call, searched, and exported.
import type { AuditSettings } from '../../../http/audit.ts'
import { defineModule, hook } from '../../module.ts'
import { AuditLogs } from './audit-logs.ts'
import { auditLogs as contract } from './contract.ts'
import { auditExports } from './exports/contract.ts'
import { ExportDestinations } from './exports/destinations.ts'
import { exportAuditLog } from './exports/exporter.ts'
import { auditExportHandlers } from './exports/handlers.ts'
import { makeTarget } from './exports/target.ts'
import { auditLogHandlers } from './handlers.ts'
import { oldEntries, oldExports } from './purge.ts'
import { storeRows } from './rows.ts'
import { openAuditLog } from './audit-log.ts'

/** Paths whose next segment is a secret, which no log may have. */
export const secretsBelow = hook<string>('paths with a secret')

export const auditLogs = defineModule<AuditSettings>({
  name: 'audit-logs',
  contracts: [contract, auditExports],
  duties: ['exports'],
  purges: ({ db, config: { keepEndedDays, auditLogRetentionDays } }) => [
    oldEntries(db, auditLogRetentionDays),
    oldExports(db, keepEndedDays, auditLogRetentionDays),
  ],
  async open(house) {
    const { db, paths, config, replica, leases, log, signal } = house
    const auditLog = house.use(await openAuditLog({ dir: paths.audit, replica, store: storeRows(db), log, signal }))
    const target = makeTarget(config.auditExport)
    house.mount(contract, auditLogHandlers(new AuditLogs(db, auditLog)))
    house.mount(auditExports, auditExportHandlers(new ExportDestinations(db, target)))
    house.background(() => exportAuditLog({ db, target, everyMs: config.auditExportSeconds * 1000, isOurs: () => leases.holds('exports'), log }))
    return { log: auditLog, trustedProxies: config.trustedProxies, secretsBelow: house.all(secretsBelow) }
  },
})
