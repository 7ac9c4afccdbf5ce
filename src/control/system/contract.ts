// What the service reports about itself.
import { z } from 'zod'
import { json, route, text } from '../../http/route.ts'

const group = 'System'
const Status = z.enum(['operational', 'degraded_performance', 'partial_outage', 'full_outage', 'maintenance', 'unknown'])

export const system = {
  getHealth: route({
    method: 'GET',
    path: '/health',
    id: 'getHealth',
    group,
    summary: 'Whether the service can serve',
    access: 'public',
    reply: json(z.object({ status: z.literal('ok') })),
    faults: ['unavailable'],
  }),
  getStatus: route({
    method: 'GET',
    path: '/status',
    id: 'getStatus',
    group,
    summary: 'How the parts of the service are',
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
    summary: 'Figures for Prometheus',
    reply: text('text/plain; version=0.0.4; charset=utf-8'),
  }),
  getOpenapi: route({
    method: 'GET',
    path: '/openapi.json',
    id: 'getOpenapi',
    group,
    summary: 'This interface as OpenAPI 3.1',
    access: 'public',
    reply: text('application/json; charset=utf-8'),
  }),
}
