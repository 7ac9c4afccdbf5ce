// Handlers of stored telemetry.
import { known, type Handlers } from '../../../http/route.ts'
import type { telemetryArchive } from './contract.ts'
import type { Telemetry } from './telemetry.ts'

export const telemetryHandlers = (telemetry: Telemetry): Handlers<typeof telemetryArchive> => ({
  listTelemetryEvents: ({ principal, params, query, signal }) => telemetry.list(known(principal).project, params.id, query, signal),
  exportHar: ({ principal, params, query, signal }) => telemetry.har(known(principal).project, params.id, query, signal),
  deleteTelemetry: ({ principal, params, signal }) => telemetry.delete(known(principal).project, params.id, signal),
  deleteOldTelemetry: ({ principal, query, signal }) => telemetry.deleteBefore(known(principal).project, query.before, signal),
})
