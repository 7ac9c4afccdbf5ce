// Handlers of the Invocations contract.
import { fault } from '../../http/fault.ts'
import type { Caller, Handlers } from '../../http/route.ts'
import type { Browser } from '../browsers/contract.ts'
import { parseSince } from '../apps/since.ts'
import type { invocations as contract } from './contract.ts'
import { present, type Invocations } from './invocations.ts'
import { isRepeated } from './repeats.ts'

/** The browsers that runs have made. */
interface MadeBrowsers {
  ofInvocation(invocationId: string, origin: string): Promise<Browser[]>
  endOfInvocation(invocationId: string): Promise<void>
}

export const invocationHandlers = (invocations: Invocations, browsers: MadeBrowsers): Handlers<typeof contract> => ({
  async createInvocation({ body, headers, caller, signal }) {
    const started = await invocations.create(body, { caller: idOf(caller), isRepeated: isRepeated(headers), signal })
    return { body: Buffer.from(JSON.stringify(started)), status: body.isAsync ? 202 : 200, headers: {} }
  },
  listInvocations: ({ query }) =>
    invocations.list({
      // An empty filter counts as absent: clients send their unset filters as empty text.
      app_name: query.app_name || undefined,
      action_name: query.action_name || undefined,
      version: query.version || undefined,
      deployment_id: query.deployment_id || undefined,
      status: query.status,
      since: parseSince(query.since),
      query: query.query || undefined,
      offset: query.offset,
      limit: query.limit,
    }),
  getInvocation: async ({ params }) => present(await invocations.find(params.id)),
  updateInvocation: ({ params, body }) => invocations.end(params.id, body.status, body.output),
  followInvocation: ({ params, query, headers, signal }) => invocations.follow(params.id, query.since, headers['last-event-id'], signal),
  listInvocationBrowsers: async ({ params, origin }) => ({ browsers: await browsers.ofInvocation((await invocations.find(params.id)).id, origin) }),
  deleteInvocationBrowsers: async ({ params }) => browsers.endOfInvocation((await invocations.find(params.id)).id),
})

function idOf(caller: Caller | undefined): string {
  if (!caller) throw fault.unauthorized('an API key is required')
  return caller.keyId
}
