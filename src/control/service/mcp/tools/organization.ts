// manage_projects, manage_api_keys and get_connection_context.
import { account } from '../../../access/account/contract.ts'
import { apiKeys } from '../../../access/api-keys/contract.ts'
import { projects } from '../../../access/projects/contract.ts'
import { act, tool } from '../tool.ts'
import { paging } from './browsers.ts'

export const manageProjects = tool({
  name: 'manage_projects',
  title: 'Manage projects',
  description:
    'Manage projects, which keep sessions, profiles and everything else apart from each other. "delete" takes empty projects only; "update" with status archived closes one. A limit of 0 removes it.',
  hasProject: false,
  fields: {
    project: ['id_or_name', 'Name or id of the project.'],
    project_id: ['id_or_name', 'Deprecated: use project.'],
    name: 'Name of the project.',
    status: 'archived closes it.',
    query: 'Part of a name.',
    max_concurrent_sessions: 'Most browser sessions at once.',
    max_concurrent_invocations: 'Most runs of apps at once.',
    max_pooled_sessions: 'Deprecated, and refused: browsers of pools count as sessions.',
    ...paging,
  },
  actions: {
    create: projects.createProject,
    list: projects.listProjects,
    get: projects.getProject,
    update: projects.updateProject,
    delete: projects.deleteProject,
    get_limits: projects.getProjectLimits,
    update_limits: projects.updateProjectLimits,
  },
})

export const manageApiKeys = tool({
  name: 'manage_api_keys',
  title: 'Manage API keys',
  description:
    'Manage API keys. "create" makes one for all projects or for one, and its answer is the only one that has the key itself; "update" renames, "delete" ends one with everything that was begun with it.',
  hasProject: false,
  fields: {
    api_key_id: ['id', 'Id of the key.'],
    name: 'Name of the key.',
    project_id: 'The only project that it may be used for. Without it: all.',
    days_to_expire: 'It expires after so many days. Without it: never.',
    ...paging,
  },
  actions: {
    create: apiKeys.createApiKey,
    list: apiKeys.listApiKeys,
    get: apiKeys.getApiKey,
    update: apiKeys.updateApiKey,
    delete: apiKeys.deleteApiKey,
  },
})

export const getConnectionContext = tool({
  name: 'get_connection_context',
  title: 'Tell who this connection is',
  description:
    'Tell with which credential this connection works, and in which project. connection_scope.kind organization: every project can be named by the field project of other tools. kind project: only the one of connection_scope.project_id.',
  hints: { readOnlyHint: true, destructiveHint: false, idempotentHint: true },
  hasProject: false,
  fields: {},
  does: act(account.getAuthContext, {
    answer(context) {
      const { credential_scope: own, effective_scope: effective } = context.authorization
      const project = own.project_id ?? effective.project_id
      return {
        ...context,
        connection_scope: {
          kind: project === null ? 'organization' : 'project',
          organization_id: context.organization.id,
          project_id: project,
          source: own.project_id === null && project !== null ? 'server_pin' : 'credential',
          project_id_required: false,
        },
      }
    },
  }),
})
