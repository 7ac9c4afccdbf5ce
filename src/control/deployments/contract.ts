// The Deployments group as callers see it. So far a deployment can be looked up.
import { z } from 'zod'
import { json, route } from '../../http/route.ts'

const Time = z.iso.datetime()

export const Deployment = z.object({
  id: z.string(),
  created_at: Time,
  region: z.literal('aws.us-east-1a'),
  status: z.enum(['queued', 'in_progress', 'running', 'failed', 'stopped']),
  entrypoint_rel_path: z.string().optional(),
  /** Names only; values are never returned. */
  env_vars: z.record(z.string(), z.string()).optional(),
  source_type: z.enum(['file', 'github']).optional(),
  source_url: z.string().optional(),
  source_ref: z.string().optional(),
  source_path: z.string().optional(),
  source_checksum: z.string().optional(),
  status_reason: z.string().optional(),
  updated_at: Time.optional(),
})

export const deployments = {
  getDeployment: route({
    method: 'GET',
    path: '/deployments/{id}',
    id: 'getDeployment',
    group: 'Deployments',
    summary: 'Get a deployment',
    params: z.strictObject({ id: z.string().min(1) }),
    reply: json(Deployment),
    faults: ['not_found'],
  }),
}
