// Handlers of the contract of export destinations.
import { known, type Handlers } from '../../../../http/route.ts'
import type { auditExports as contract } from './contract.ts'
import type { ExportDestinations } from './destinations.ts'

export const auditExportHandlers = (destinations: ExportDestinations): Handlers<typeof contract> => ({
  createAuditLogExportDestination: ({ principal, body }) => destinations.create(known(principal), body),
  listAuditLogExportDestinations: ({ principal, query }) => destinations.list(known(principal), query),
  getAuditLogExportDestination: ({ principal, params }) => destinations.get(known(principal), params.id),
  updateAuditLogExportDestination: ({ principal, params, body }) => destinations.update(known(principal), params.id, body),
  deleteAuditLogExportDestination: ({ principal, params }) => destinations.delete(known(principal), params.id),
  testAuditLogExportDestination: ({ principal, params, signal }) => destinations.test(known(principal), params.id, signal),
})
