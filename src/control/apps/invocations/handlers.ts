// Handlers of the Invocations contract.
import { fault } from '../../../http/fault.ts'
import { isAccount, known, type Handlers, type Principal } from '../../../http/route.ts'
import type { Browser } from '../../sessions/browsers/contract.ts'
import { parseBeginning } from '../apps/since.ts'
import type { invocations as contract } from './contract.ts'
import { present, type Invocations } from './invocations.ts'
import { isRepeated } from './repeats.ts'

/** The browsers that runs have made. */
interface MadeBrowsers {
  ofInvocation(by: Principal, invocationId: string, origin: string): Promise<Browser[]>
  endOfInvocation(invocationId: string): Promise<void>
}

export const invocationHandlers = (invocations: Invocations, browsers: MadeBrowsers): Handlers<typeof contract> => ({
  async createInvocation({ body, headers, principal, signal }) {
    const asking = { caller: whose(known(principal)), project: known(principal).project, isRepeated: isRepeated(headers), signal }
    const started = await invocations.create(body, asking)
    return { body: Buffer.from(JSON.stringify(started)), status: body.isAsync ? 202 : 200, headers: {} }
  },
  listInvocations: ({ principal, query }) =>
    invocations.list(known(principal).project, {
      // An empty filter counts as absent: clients send their unset filters as empty text.
      app_name: query.app_name || undefined,
      action_name: query.action_name || undefined,
      version: query.version || undefined,
      deployment_id: query.deployment_id || undefined,
      status: query.status,
      since: parseBeginning(query.since),
      query: query.query || undefined,
      offset: query.offset,
      limit: query.limit,
    }),
  getInvocation: async ({ principal, params }) => present(await invocations.find(known(principal).project, params.id)),
  updateInvocation: ({ principal, params, body }) => invocations.end(known(principal).project, params.id, body.status, body.output),
  followInvocation: ({ principal, params, query, headers, signal }) =>
    invocations.follow(known(principal).project, params.id, query.since, headers['last-event-id'], signal),
  listInvocationBrowsers: async ({ principal, params, origin }) => ({
    browsers: await browsers.ofInvocation(known(principal), (await invocations.find(known(principal).project, params.id)).id, origin),
  }),
  deleteInvocationBrowsers: async ({ principal, params }) => browsers.endOfInvocation((await invocations.find(known(principal).project, params.id)).id),
})

/** The caller whose repeated requests are compared: one key in one project. Keys and people make invocations. */
function whose({ by, project }: Principal): string {
  if (!isAccount(by)) throw fault.unauthorized('an API key is required')
  return `${by.id} in ${project}`
}
