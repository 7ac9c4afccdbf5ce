// Calls about the service itself.
import * as z from 'zod'
import { json, route, text } from '../../../http/route.ts'

const group = 'System'
const Status = z.enum(['operational', 'degraded_performance', 'partial_outage', 'full_outage', 'maintenance', 'unknown'])

export const system = {
  getHealth: route({
    method: 'GET',
    path: '/health',
    id: 'getHealth',
    group,
    summary: 'Check whether the service can handle requests',
    access: 'public',
    reply: json(z.object({ status: z.literal('ok') })),
    faults: ['unavailable'],
  }),
  getStatus: route({
    method: 'GET',
    path: '/status',
    id: 'getStatus',
    group,
    summary: 'Get the state of the parts of the service',
    access: 'public',
    reply: json(
      z.object({
        status: Status,
        groups: z.array(z.object({ name: z.string(), status: Status, components: z.array(z.object({ name: z.string(), status: Status })) })),
      }),
    ),
  }),
  getMetrics: route({
    method: 'GET',
    path: '/metrics',
    id: 'getMetrics',
    group,
    summary: 'Get metrics in the Prometheus format',
    reply: text('text/plain; version=0.0.4; charset=utf-8'),
    faults: ['forbidden'],
  }),
  getOpenapi: route({
    method: 'GET',
    path: '/openapi.json',
    id: 'getOpenapi',
    group,
    summary: 'Get the OpenAPI 3.1 document of this API',
    access: 'public',
    reply: text('application/json; charset=utf-8'),
  }),
}
