// Handlers of the Audit logs contract.
import { known, type Handlers } from '../../../http/route.ts'
import type { AuditLogs } from './audit-logs.ts'
import type { auditLogs as contract } from './contract.ts'

export const auditLogHandlers = (auditLogs: AuditLogs): Handlers<typeof contract> => ({
  listAuditLogs: ({ principal, headers, query }) => auditLogs.search(known(principal), headers, query),
  exportAuditLogs: ({ principal, headers, query, signal }) => auditLogs.export(known(principal), headers, query, signal),
})
