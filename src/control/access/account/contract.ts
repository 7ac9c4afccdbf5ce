// Calls about the caller's own account and about the service as a whole. Newer SDKs and the MCP server make the first one before anything else.
import * as z from 'zod'
import { json, route } from '../../../http/route.ts'

/** A service is one organization, and its id is always this one: no client needs it to distinguish two services. */
export const ORGANIZATION = 'defaultorganization00000'

const Scope = z.object({ project_id: z.string().nullable() })

const AuthContext = z.object({
  authentication: z.object({
    credential_id: z.string().nullable(),
    method: z.enum(['api_key', 'jwt']),
    source: z.enum(['api_key', 'oauth', 'dashboard']),
  }),
  /** null: all projects. The effective scope is the scope of this request, with the project that its headers name. */
  authorization: z.object({ credential_scope: Scope, effective_scope: Scope }),
  organization: z.object({ id: z.string() }),
  principal: z.object({ id: z.string(), type: z.enum(['api_key', 'user']) }),
})
export type AuthContext = z.output<typeof AuthContext>

const Feature = z.object({ enabled: z.boolean() })
const PlanId = z.enum(['FREE', 'HOBBYIST', 'START_UP', 'ENTERPRISE'])

const Entitlements = z.object({
  features: z.object({
    browser_extensions: Feature.extend({ max_stored_per_org: z.number().int().nullable() }),
    browser_pools: Feature,
    browser_replays: Feature.extend({ retention_days: z.number().int() }),
    credential_providers: Feature,
    credentials: Feature,
    custom_proxies: Feature,
    file_io: Feature,
    gpu: Feature,
    managed_auth: Feature.extend({
      health_check_interval_default_seconds: z.number().int(),
      health_check_interval_max_seconds: z.number().int(),
      health_check_interval_min_seconds: z.number().int(),
      max_connections: z.number().int().nullable(),
    }),
    managed_proxies: Feature,
    profiles: Feature,
    proxy_bypass_hosts: Feature,
    search: Feature,
    vaults: Feature,
  }),
  /** null: no limit. */
  limits: z.object({
    default_max_concurrent_invocations_per_app: z.number().int(),
    max_concurrent_browsers: z.number().int(),
    max_concurrent_invocations: z.number().int(),
    max_vaults: z.number().int().nullable(),
  }),
  plan: z.object({
    id: PlanId,
    effective_id: PlanId,
    is_trialing: z.boolean(),
    status: z.enum(['NEEDS_PAYMENT_METHOD', 'ACTIVE', 'CANCELED', 'UNPAID']).nullable(),
    trial_ends_at: z.iso.datetime().nullable(),
  }),
})
export type Entitlements = z.output<typeof Entitlements>

export const account = {
  getAuthContext: route({
    method: 'GET',
    path: '/auth/context',
    id: 'getAuthContext',
    group: 'Organization',
    summary: 'Tell who the caller is, and for which project',
    reply: json(AuthContext),
  }),
  getEntitlements: route({
    method: 'GET',
    path: '/org/entitlements',
    id: 'getEntitlements',
    group: 'Organization',
    summary: 'Tell what the plan includes (everything), and the limits of this service',
    reply: json(Entitlements),
  }),
}
