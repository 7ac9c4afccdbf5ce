// The contract of the Deployments group.
import * as z from 'zod'
import { events, formParts, json, none, page, pagingQuery, route } from '../../../http/route.ts'
import { AppAction, ErrorEvent, Heartbeat, LogEvent, Region, Time } from '../apps/contract.ts'

const group = 'Deployments'

export const Deployment = z.object({
  id: z.string(),
  created_at: Time,
  region: Region,
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
export type Deployment = z.output<typeof Deployment>

/** Sent once for each app that a build has found, before the running state. */
const AppVersionSummary = z.object({
  event: z.literal('app_version_summary'),
  id: z.string(),
  app_name: z.string(),
  version: z.string(),
  region: Region,
  actions: z.array(AppAction),
  env_vars: z.record(z.string(), z.string()),
  timestamp: Time,
})

export const DeploymentEvent = z.union([
  LogEvent,
  z.object({ event: z.literal('deployment_state'), deployment: Deployment, timestamp: Time }),
  AppVersionSummary,
  ErrorEvent,
  Heartbeat,
])
export type DeploymentEvent = z.output<typeof DeploymentEvent>

const text = { type: 'string' } as const
/** The parts of the form, for the documentation. form.ts checks them as they arrive. */
const FORM = {
  type: 'object',
  properties: {
    file: { type: 'string', format: 'binary', description: 'A zip with the code at its root. Either this or source.' },
    entrypoint_rel_path: { ...text, description: 'The file in the zip that makes the apps.' },
    source: {
      ...text,
      description:
        'JSON: {"type":"github","url","ref","entrypoint","path"?,"auth"?:{"method":"github_token","token"}}; or a part for each field: source[type], source[auth][token], or source.type.',
    },
    'env_vars[KEY]': { ...text, description: 'A variable of the code, a part each; env_vars.KEY means the same; or one part env_vars with a JSON object.' },
    version: { ...text, default: 'latest' },
    force: { ...text, enum: ['true', 'false'], default: 'false', description: 'Replaces a version that exists; "latest" is always replaced.' },
    region: { ...text, enum: ['aws.us-east-1a'] },
  },
} as const

/** A large archive over a slow connection takes long. The server itself ends requests after an hour. */
const UPLOAD_MS = 3_600_000

const params = z.strictObject({ id: z.string().min(1) })

export const deployments = {
  createDeployment: route({
    method: 'POST',
    path: '/deployments',
    id: 'createDeployment',
    group,
    needsRoom: true,
    summary: 'Deploy code; its apps can be invoked when the build has succeeded',
    body: formParts.meta(FORM),
    bodyKind: 'form',
    maxBodyBytes: Infinity,
    // 201, because the deployment exists and can be followed. Its status says that its build is still to come.
    reply: json(Deployment, 201),
    deadlineMs: UPLOAD_MS,
    faults: ['unavailable'],
  }),
  listDeployments: route({
    method: 'GET',
    path: '/deployments',
    id: 'listDeployments',
    group,
    summary: 'List deployments, newest first',
    query: z
      .strictObject({
        ...pagingQuery,
        app_name: z.string().max(255).optional(),
        /** Only together with app_name. */
        app_version: z.string().max(255).optional(),
        /** Part of an app's name, or a whole id. */
        query: z.string().max(255).optional(),
      })
      .refine(({ app_name, app_version }) => !app_version || app_name, { path: ['app_version'], error: 'needs app_name' }),
    reply: page(Deployment),
  }),
  getDeployment: route({
    method: 'GET',
    path: '/deployments/{id}',
    id: 'getDeployment',
    group,
    summary: 'Get a deployment',
    params,
    reply: json(Deployment),
    faults: ['not_found'],
  }),
  deleteDeployment: route({
    method: 'DELETE',
    path: '/deployments/{id}',
    id: 'deleteDeployment',
    group,
    summary: 'Delete a deployment and stop its runs',
    params,
    reply: none(),
    faults: ['not_found'],
  }),
  followDeployment: route({
    method: 'GET',
    path: '/deployments/{id}/events',
    id: 'followDeployment',
    group,
    summary: 'Stream the state of a deployment and the output of its build and runs',
    params,
    query: z.strictObject({
      /** An age (5m, 1h30m) or a time; absent or empty asks for all stored lines. */
      since: z.string().max(100).optional(),
    }),
    reply: events(DeploymentEvent),
    deadlineMs: Infinity,
    faults: ['not_found'],
  }),
}
