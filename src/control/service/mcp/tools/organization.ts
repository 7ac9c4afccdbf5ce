// manage_projects, manage_api_keys and get_connection_context.
import { z } from 'zod'
import { fault } from '../../../../http/fault.ts'
import { account } from '../../../access/account/contract.ts'
import { apiKeys } from '../../../access/api-keys/contract.ts'
import { CreateProject, projects, UpdateProject, UpdateProjectLimits } from '../../../access/projects/contract.ts'
import { jsonResult, textResult } from '../results.ts'
import { field, paging, single, tool } from '../tool.ts'

const text = z.string().min(1).max(255)

export const manageProjects = tool(
  {
    name: 'manage_projects',
    toolset: 'projects',
    title: 'Manage projects',
    description:
      'Manage projects, which keep sessions, profiles and everything else apart from each other. "delete" takes empty projects only; "update" with status archived closes one. A limit of 0 removes it.',
    hasProject: false,
    fields: {
      project: text.describe('Name or id of the project.'),
      project_id: text.describe('Deprecated: use project.'),
      name: field(CreateProject.shape.name, 'Name of the project.'),
      status: field(UpdateProject.shape.status, 'archived closes it.'),
      query: text.describe('Part of a name.'),
      max_concurrent_sessions: field(UpdateProjectLimits.shape.max_concurrent_sessions, 'Most browser sessions at once.'),
      max_concurrent_invocations: field(UpdateProjectLimits.shape.max_concurrent_invocations, 'Most runs of apps at once.'),
      max_pooled_sessions: z.int().describe('Deprecated, and refused: browsers of pools count as sessions.'),
      ...paging,
    },
  },
  (on) => ({
    create: on({ needs: ['name'] }, async ({ name }, api) => jsonResult(await api.call(projects.createProject, { body: { name } }))),
    list: on({ takes: ['query', 'limit', 'offset'] }, async ({ query, limit, offset }, api) =>
      jsonResult(await api.call(projects.listProjects, { query: { query, limit, offset } })),
    ),
    get: on({ takes: ['project', 'project_id'] }, async (given, api) => jsonResult(await api.call(projects.getProject, { params: called(given) }))),
    update: on({ takes: ['project', 'project_id', 'name', 'status'] }, async ({ name, status, ...given }, api) => {
      if (name === undefined && status === undefined) throw fault.field('name', 'is required for update, or status')
      return jsonResult(await api.call(projects.updateProject, { params: called(given), body: { name, status } }))
    }),
    delete: on({ takes: ['project', 'project_id'] }, async (given, api) => {
      await api.call(projects.deleteProject, { params: called(given) })
      return textResult('The project is deleted.')
    }),
    get_limits: on({ takes: ['project', 'project_id'] }, async (given, api) =>
      jsonResult(await api.call(projects.getProjectLimits, { params: called(given) })),
    ),
    update_limits: on(
      { takes: ['project', 'project_id', 'max_concurrent_sessions', 'max_concurrent_invocations', 'max_pooled_sessions'] },
      async ({ max_concurrent_sessions, max_concurrent_invocations, max_pooled_sessions, ...given }, api) => {
        const body = { max_concurrent_sessions, max_concurrent_invocations, max_pooled_sessions } as z.input<typeof UpdateProjectLimits>
        return jsonResult(await api.call(projects.updateProjectLimits, { params: called(given), body }))
      },
    ),
  }),
)

function called({ project, project_id: id }: { project?: string | undefined; project_id?: string | undefined }): { id_or_name: string } {
  if (project !== undefined && id !== undefined && project !== id) throw fault.field('project_id', 'is deprecated, and cannot differ from project')
  const found = project ?? id
  if (found === undefined) throw fault.field('project', 'is required for this action')
  return { id_or_name: found }
}

const { body: CreateKey } = apiKeys.createApiKey

export const manageApiKeys = tool(
  {
    name: 'manage_api_keys',
    toolset: 'api_keys',
    title: 'Manage API keys',
    description:
      'Manage API keys. "create" makes one for all projects or for one, and its answer is the only one that has the key itself; "update" renames, "delete" ends one with everything that was begun with it.',
    hasProject: false,
    fields: {
      api_key_id: text.describe('Id of the key.'),
      name: field(CreateKey.shape.name, 'Name of the key.'),
      project_id: text.describe('The only project that it may be used for. Without it: all.'),
      days_to_expire: field(CreateKey.shape.days_to_expire, 'It expires after so many days. Without it: never.'),
      ...paging,
    },
  },
  (on) => ({
    create: on({ needs: ['name'], takes: ['project_id', 'days_to_expire'] }, async ({ name, project_id, days_to_expire }, api) =>
      jsonResult(await api.call(apiKeys.createApiKey, { body: { name, project_id, days_to_expire } })),
    ),
    list: on({ takes: ['limit', 'offset'] }, async ({ limit, offset }, api) => jsonResult(await api.call(apiKeys.listApiKeys, { query: { limit, offset } }))),
    get: on({ needs: ['api_key_id'] }, async ({ api_key_id: id }, api) => jsonResult(await api.call(apiKeys.getApiKey, { params: { id }, query: {} }))),
    update: on({ needs: ['api_key_id', 'name'] }, async ({ api_key_id: id, name }, api) =>
      jsonResult(await api.call(apiKeys.updateApiKey, { params: { id }, body: { name } })),
    ),
    delete: on({ needs: ['api_key_id'] }, async ({ api_key_id: id }, api) => {
      await api.call(apiKeys.deleteApiKey, { params: { id } })
      return textResult('The API key is deleted.')
    }),
  }),
)

export const getConnectionContext = single(
  {
    name: 'get_connection_context',
    title: 'Tell who this connection is',
    description:
      'Tell with which credential this connection works, and in which project. connection_scope.kind organization: every project can be named by the field project of other tools. kind project: only the one of connection_scope.project_id.',
    hints: { readOnlyHint: true, destructiveHint: false, idempotentHint: true },
    hasProject: false,
    needs: [],
    fields: {},
  },
  async (_given, api) => {
    const context = await api.call(account.getAuthContext, {})
    const { credential_scope: own, effective_scope: effective } = context.authorization
    const project = own.project_id ?? effective.project_id
    return jsonResult({
      ...context,
      connection_scope: {
        kind: project === null ? 'organization' : 'project',
        organization_id: context.organization.id,
        project_id: project,
        source: own.project_id === null && project !== null ? 'server_pin' : 'credential',
        project_id_required: false,
      },
    })
  },
)
