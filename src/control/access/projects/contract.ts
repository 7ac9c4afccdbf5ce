// The contract of the groups Projects and Organization limits.
import * as z from 'zod'
import { isId } from '../../../base/ids.ts'
import { MAX_INTEGER, json, none, page, pagingQuery, route } from '../../../http/route.ts'

const group = 'Projects'
const limitsGroup = 'Organization limits'
const Time = z.iso.datetime()

const MAX_NAME = 255

const Name = z
  .string()
  .refine((name) => name.trim() !== '' && Array.from(name).length <= MAX_NAME, `must have 1 to ${MAX_NAME} characters, not only spaces`)
  .refine((name) => name === name.trim(), 'must not begin or end with a space')
  .refine((name) => !/[/%\p{Cc}]/u.test(name), 'must have no / and no %, and no control characters')
  // No client can use these in a path: they mean the folder itself and its parent, also percent-encoded.
  .refine((name) => name !== '.' && name !== '..', 'must not be "." or ".."')
  .refine((name) => !isId(name.toLowerCase()), 'must not look like an id (24 letters and digits)')

const Status = z.enum(['active', 'archived'])

export const CreateProject = z.strictObject({ name: Name })

export const UpdateProject = z.strictObject({ name: Name.optional(), status: Status.optional() })
export type UpdateProject = z.output<typeof UpdateProject>

export const Project = z.object({ id: z.string(), name: z.string(), status: Status, created_at: Time, updated_at: Time })
export type Project = z.output<typeof Project>

/** 0 removes the limit. */
const Limit = z.int().min(0).max(MAX_INTEGER).optional()

export const UpdateProjectLimits = z.strictObject({
  max_concurrent_sessions: Limit,
  max_concurrent_invocations: Limit,
  /** Deprecated. Browsers of pools count as sessions. */
  max_pooled_sessions: z
    .int()
    .max(MAX_INTEGER)
    .optional()
    .refine((given) => given === undefined, 'cannot be set: browsers of pools count towards max_concurrent_sessions'),
})
export type UpdateProjectLimits = z.output<typeof UpdateProjectLimits>

/** Null: the project has no limit of its own. */
export const ProjectLimits = z.object({
  max_concurrent_sessions: z.int().nullable(),
  max_concurrent_invocations: z.int().nullable(),
  /** Deprecated. Always null. */
  max_pooled_sessions: z.null(),
})
export type ProjectLimits = z.output<typeof ProjectLimits>

export const UpdateOrgLimits = z.strictObject({ default_project_max_concurrent_sessions: Limit })
export type UpdateOrgLimits = z.output<typeof UpdateOrgLimits>

export const OrgLimits = z.object({
  /** COB_MAX_BROWSERS. */
  max_concurrent_sessions: z.int(),
  /** For every project without its own limit. Null: none. */
  default_project_max_concurrent_sessions: z.int().nullable(),
  concurrent_sessions_used: z.int(),
  concurrent_sessions_available: z.int(),
  // Newer clients require these. There are no auth connections and no vaults yet.
  auth_connections_used: z.int(),
  max_auth_connections: z.int().nullable(),
  min_health_check_interval_seconds: z.int(),
  vaults_used: z.int(),
  max_vaults: z.int().nullable(),
})
export type OrgLimits = z.output<typeof OrgLimits>

const params = z.strictObject({ id_or_name: z.string().min(1) })

export const projects = {
  createProject: route({
    method: 'POST',
    path: '/org/projects',
    id: 'createProject',
    right: 'own',
    group,
    summary: 'Create a project',
    body: CreateProject,
    reply: json(Project, 201),
    faults: ['forbidden', 'conflict'],
  }),
  listProjects: route({
    method: 'GET',
    path: '/org/projects',
    id: 'listProjects',
    group,
    summary: 'List projects, newest first; a key of a project sees its own only',
    query: z.strictObject({
      ...pagingQuery,
      /** A whole name. Case and accents make no difference. */
      name: z.string().optional(),
      /** Part of a name. Case makes no difference. */
      query: z.string().optional(),
    }),
    reply: page(Project),
  }),
  getProject: route({
    method: 'GET',
    path: '/org/projects/{id_or_name}',
    id: 'getProject',
    group,
    summary: 'Get a project',
    params,
    reply: json(Project),
    faults: ['not_found'],
  }),
  updateProject: route({
    method: 'PATCH',
    path: '/org/projects/{id_or_name}',
    id: 'updateProject',
    right: 'own',
    group,
    summary: 'Rename a project, archive it, or make it active again',
    params,
    body: UpdateProject,
    bodyOptional: true,
    reply: json(Project),
    faults: ['forbidden', 'not_found', 'conflict'],
  }),
  deleteProject: route({
    method: 'DELETE',
    path: '/org/projects/{id_or_name}',
    id: 'deleteProject',
    right: 'own',
    group,
    summary: 'Delete an empty project; its API keys stop working',
    params,
    reply: none(),
    faults: ['forbidden', 'not_found', 'conflict'],
  }),
  getProjectLimits: route({
    method: 'GET',
    path: '/org/projects/{id_or_name}/limits',
    id: 'getProjectLimits',
    group,
    summary: "Get a project's own limits",
    params,
    reply: json(ProjectLimits),
    faults: ['not_found'],
  }),
  updateProjectLimits: route({
    method: 'PATCH',
    path: '/org/projects/{id_or_name}/limits',
    id: 'updateProjectLimits',
    right: 'own',
    group,
    summary: "Change a project's own limits; 0 removes one",
    params,
    body: UpdateProjectLimits,
    bodyOptional: true,
    reply: json(ProjectLimits),
    faults: ['forbidden', 'not_found'],
  }),
  getOrgLimits: route({
    method: 'GET',
    path: '/org/limits',
    id: 'getOrgLimits',
    group: limitsGroup,
    summary: 'Get the limits of all projects together, and the default for each',
    reply: json(OrgLimits),
    faults: ['forbidden'],
  }),
  updateOrgLimits: route({
    method: 'PATCH',
    path: '/org/limits',
    id: 'updateOrgLimits',
    right: 'own',
    group: limitsGroup,
    summary: 'Change the default limit of projects; 0 removes it',
    body: UpdateOrgLimits,
    bodyOptional: true,
    reply: json(OrgLimits),
    faults: ['forbidden'],
  }),
}
