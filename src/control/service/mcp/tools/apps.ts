// manage_apps: deployed apps, their versions and runs.
import { z } from 'zod'
import { fault } from '../../../../http/fault.ts'
import { apps } from '../../../apps/apps/contract.ts'
import { deployments } from '../../../apps/deployments/contract.ts'
import { invocations, Started } from '../../../apps/invocations/contract.ts'
import { jsonResult, textResult } from '../results.ts'
import { paging, tool } from '../tool.ts'
import { brief } from './browsers.ts'

const text = z.string().min(1).max(255)

export const manageApps = tool(
  {
    name: 'manage_apps',
    toolset: 'apps',
    title: 'Manage apps and their runs',
    description:
      'Find deployed apps and their actions ("list_apps"), run an action ("invoke": it answers an invocation_id at once; "get_invocation" tells how it goes), and look at deployments. Apps are deployed by the CLI or an SDK.',
    hints: { openWorldHint: true },
    fields: {
      app_name: text.describe('Name of the app.'),
      version: text.describe('Version of the app. For invoke the default is latest.'),
      query: z.string().max(255).describe('Part of the name of an app.'),
      action_name: text.describe('The action to run.'),
      payload: z.string().describe('Parameters of the action, as JSON text.'),
      deployment_id: text.describe('Id of the deployment.'),
      invocation_id: text.describe('Id of the run.'),
      ...paging,
    },
  },
  (on) => ({
    list_apps: on({ takes: ['app_name', 'version', 'query', 'limit', 'offset'] }, async ({ app_name, version, query, limit, offset }, api) =>
      jsonResult(await api.call(apps.listApps, { query: { app_name, version, query, limit, offset } })),
    ),
    invoke: on({ needs: ['app_name', 'action_name'], takes: ['version', 'payload'] }, async ({ app_name, action_name, version = 'latest', payload }, api) => {
      const answer = await api.call(invocations.createInvocation, { body: { app_name, action_name, version, payload, async: true } })
      const run = Started.parse(JSON.parse(answer.toString()))
      return jsonResult({ ...run, invocation_id: run.id })
    }),
    get_deployment: on({ needs: ['deployment_id'] }, async ({ deployment_id: id }, api) =>
      jsonResult(await api.call(deployments.getDeployment, { params: { id } })),
    ),
    list_deployments: on({ takes: ['app_name', 'version', 'limit', 'offset'] }, async ({ app_name, version: app_version, limit, offset }, api) => {
      if (app_version !== undefined && app_name === undefined) throw fault.field('app_name', 'is required with version')
      return jsonResult(await api.call(deployments.listDeployments, { query: { app_name, app_version, limit, offset } }))
    }),
    delete_deployment: on({ needs: ['deployment_id'] }, async ({ deployment_id: id }, api) => {
      await api.call(deployments.deleteDeployment, { params: { id } })
      return textResult('The deployment is deleted.')
    }),
    get_invocation: on({ needs: ['invocation_id'] }, async ({ invocation_id: id }, api) =>
      jsonResult(await api.call(invocations.getInvocation, { params: { id } })),
    ),
    list_invocation_browsers: on({ needs: ['invocation_id'] }, async ({ invocation_id: id }, api) => {
      const { browsers } = await api.call(invocations.listInvocationBrowsers, { params: { id } })
      return jsonResult({ browsers: browsers.map(brief) })
    }),
  }),
)
