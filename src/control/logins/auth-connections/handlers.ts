// Handlers of the Managed Auth contract.
import { includes, known, roleOf, type Handlers, type Principal } from '../../../http/route.ts'
import type { Connections } from './connections.ts'
import type { authConnections as contract, Connection, FlowEvent } from './contract.ts'
import type { HandOff } from './hand-off.ts'

export const authConnectionHandlers = (connections: Connections, handOff: Pick<HandOff, 'exchange'>): Handlers<typeof contract> => ({
  createAuthConnection: ({ principal, body, origin, signal }) => connections.create(known(principal), body, origin, signal),
  listAuthConnections: async ({ principal, query, origin }) => {
    const { items, nextOffset } = await connections.list(known(principal).project, query, origin)
    return { items: items.map((item) => shownTo(principal, item)), nextOffset }
  },
  getAuthConnection: async ({ principal, params, origin }) => shownTo(principal, await connections.get(known(principal).project, params.id, origin)),
  updateAuthConnection: ({ principal, params, body, origin, signal }) => connections.update(known(principal), params.id, body, origin, signal),
  deleteAuthConnection: ({ principal, params }) => connections.delete(known(principal).project, params.id),
  loginAuthConnection: ({ principal, params, body, origin }) => connections.login(known(principal), params.id, body, origin),
  submitAuthConnection: ({ principal, params, body }) => connections.submit(known(principal).project, params.id, body),
  async followAuthConnection({ principal, params, origin, signal }) {
    const events = await connections.follow(known(principal).project, params.id, origin, signal)
    return mayUse(principal) ? events : withoutAddresses(events)
  },
  listAuthConnectionTimeline: ({ principal, params, query }) => connections.timeline(known(principal).project, params.id, query),
  exchangeAuthConnectionCode: async ({ params, body }) => ({ jwt: await handOff.exchange(params.id, body.code) }),
})

const mayUse = (principal: Principal | undefined): boolean => includes(roleOf(known(principal)), 'use')

/** For callers who may only look: without the addresses that let their holder continue a login. */
const shownTo = (principal: Principal | undefined, connection: Connection): Connection =>
  mayUse(principal) ? connection : { ...connection, hosted_url: null, live_view_url: null }

async function* withoutAddresses(events: AsyncIterable<FlowEvent>): AsyncGenerator<FlowEvent> {
  for await (const event of events) {
    if (!('hosted_url' in event || 'live_view_url' in event)) yield event
    else {
      const { hosted_url: _, live_view_url: __, ...rest } = event
      yield rest
    }
  }
}
