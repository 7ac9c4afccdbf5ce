// manage_apps: deployed apps, their versions and runs.
import { apps } from '../../../apps/apps/contract.ts'
import { deployments } from '../../../apps/deployments/contract.ts'
import { invocations, Started } from '../../../apps/invocations/contract.ts'
import { act, tool } from '../tool.ts'
import { briefly, paging } from './browsers.ts'

export const manageApps = tool({
  name: 'manage_apps',
  title: 'Manage apps and their runs',
  description:
    'Find deployed apps and their actions ("list_apps"), run an action ("invoke": it answers an invocation_id at once; "get_invocation" tells how it goes), and look at deployments. Apps are deployed by the CLI or an SDK.',
  hints: { openWorldHint: true },
  fields: {
    app_name: 'Name of the app.',
    version: ['version app_version', 'Version of the app. For invoke the default is latest.'],
    query: 'Part of the name of an app.',
    action_name: 'The action to run.',
    payload: 'Parameters of the action, as JSON text.',
    deployment_id: ['id', 'Id of the deployment.'],
    invocation_id: ['id', 'Id of the run.'],
    ...paging,
  },
  actions: {
    list_apps: apps.listApps,
    invoke: act(invocations.createInvocation, {
      with: { body: { version: 'latest', async: true } },
      answer(started) {
        const run = Started.parse(JSON.parse(started.toString()))
        return { ...run, invocation_id: run.id }
      },
    }),
    get_deployment: { route: deployments.getDeployment, without: ['invocation_id'] },
    list_deployments: deployments.listDeployments,
    delete_deployment: { route: deployments.deleteDeployment, without: ['invocation_id'] },
    get_invocation: { route: invocations.getInvocation, without: ['deployment_id'] },
    list_invocation_browsers: act(invocations.listInvocationBrowsers, {
      without: ['deployment_id'],
      answer: ({ browsers }) => ({ browsers: briefly({ items: browsers, nextOffset: undefined }).items }),
    }),
  },
})
