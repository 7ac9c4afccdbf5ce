// Handlers of the contract of telemetry destinations.
import { known, type Handlers } from '../../../../http/route.ts'
import type { telemetryDestinations as contract } from './contract.ts'
import type { Destinations } from './destinations.ts'

export const destinationHandlers = (destinations: Destinations): Handlers<typeof contract> => ({
  createTelemetryDestination: ({ principal, body, signal }) => destinations.create(known(principal), body, signal),
  listTelemetryDestinations: ({ query }) => destinations.list(query),
  getTelemetryDestination: ({ params }) => destinations.get(params.id_or_name),
  updateTelemetryDestination: ({ principal, params, body, signal }) => destinations.update(known(principal), params.id_or_name, body, signal),
  deleteTelemetryDestination: ({ principal, params }) => destinations.delete(known(principal), params.id_or_name),
})
